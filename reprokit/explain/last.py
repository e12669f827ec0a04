"""The last failure: its log with what failed, kept in the state folder, and its cause in two or three lines."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from reprokit import paths
from reprokit.errors import ReprokitError, UsageError
from reprokit.explain.place import normalised
from reprokit.redact import redact

if TYPE_CHECKING:
    from reprokit.explain.model import Cause
    from reprokit.explain.remedy import Subject
    from reprokit.recipe.find import Target

# Half of a kept log is its beginning, where the first cause is, half its end.
HALF = 4 << 20
# How a fact about an exit code begins.
EXIT_CODE = "reprokit: exit code "
_SHOWN = 400
# The verb that runs, without its arguments, which may hold secrets.
VERB: ContextVar[str] = ContextVar("verb", default="")
# The last line of a kept log says what failed.
_WHAT_FAILED = b"reprokit: failure of "


@dataclass(frozen=True)
class LastFailure:
    """What failed and when: the verb, the recipe's file and variant and the block, each empty if there was none.

    `error` is true if the log is nothing but the text of an error.
    """

    verb: str = ""
    recipe: str = ""
    variant: str = ""
    block: str = ""
    time: str = ""
    error: bool = False

    def __str__(self) -> str:
        name = f"{Path(self.recipe).stem}:{self.variant}" if self.recipe else ""
        command = f"`{' '.join(filter(None, ('reprokit', self.verb, name)))}`"
        where = f" ({paths.from_here(self.recipe)})" if self.recipe else ""
        return f"{command} failed on {self.time.replace('T', ' ')}{where}"


# Of the lines of successes as many bytes for a variant, and of so many variants.
_MOST_GOOD_BYTES = 1 << 20
_MOST_GOOD = 64


class OutputRecording:
    """The output of a command: its beginning and its end, HALF bytes each at most."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._in_tail = self._dropped = 0

    def write(self, data: bytes) -> None:
        room = HALF - len(self._head)
        self._head += data[:room]
        if data := data[room:]:
            self._tail.append(data[-HALF:])
            self._in_tail += len(self._tail[-1])
            self._dropped += len(data) - len(self._tail[-1])
        while self._in_tail - len(self._tail[0] if self._tail else b"") >= HALF:
            self._in_tail -= len(self._tail[0])
            self._dropped += len(self._tail.popleft())

    def content(self) -> bytes:
        tail = b"".join(self._tail)
        dropped = self._dropped + max(0, len(tail) - HALF)
        gap = f"\n[{dropped} bytes left out]\n".encode() if dropped else b""
        return bytes(self._head) + gap + tail[-HALF:]


def log_path() -> Path:
    return paths.state() / "failures" / "last.log"


def read_log() -> tuple[bytes, LastFailure]:
    """The kept log, and what failed. Raises FileNotFoundError if no failure is kept."""
    kept = log_path().read_bytes()
    log, mark, line = kept.rpartition(_WHAT_FAILED)
    if not mark:  # the user changed the file
        return kept, LastFailure()
    return log, LastFailure(**json.loads(line))


def keep_success(output: OutputRecording | bytes | str, subject: Subject) -> None:
    """Keep the lines of a command that succeeded: they are no causes when it fails later. Never raises."""
    path = _good_path(subject)
    lines = dict.fromkeys([*map(normalised, _content(output).splitlines()), *_lines_of(path)])
    size, kept = 0, []
    for line in lines:
        size += len(line) + 1
        if line and size <= _MOST_GOOD_BYTES:
            kept.append(line)
    with contextlib.suppress(OSError, ReprokitError):
        paths.write_private(path, b"\n".join(kept))
        for old in sorted(path.parent.glob("*.log"), key=lambda each: each.stat().st_mtime)[:-_MOST_GOOD]:
            old.unlink()


def good_lines(subject: Subject | None, verb: str = "") -> frozenset[bytes]:
    """The lines of earlier successes of what failed, as `normalised` leaves them; none without one."""
    return frozenset(_lines_of(_good_path(subject, verb))) if subject else frozenset()


def _lines_of(path: Path) -> list[bytes]:
    try:
        return path.read_bytes().splitlines()
    except OSError:
        return []


def _good_path(subject: Subject, verb: str = "") -> Path:
    what = [verb or VERB.get(), str(subject.target.path.absolute()), subject.target.variant_name]
    return paths.state() / "successes" / f"{hashlib.sha256(json.dumps(what).encode()).hexdigest()[:32]}.log"


def keep(
    output: OutputRecording | bytes | str, facts: Sequence[str] = (), subject: Subject | None = None
) -> tuple[str, ...]:
    """Keep a failure's log for `reprokit explain --last`; return its cause and remedy as lines to show.

    `facts`: evidence that is not in the output, such as an out-of-memory kill. Without a known cause there are no
    lines. Never raises: the failure itself must reach the user.
    """
    return shown(causes_of(output, facts, subject), subject)


def causes_of(
    output: OutputRecording | bytes | str, facts: Sequence[str] = (), subject: Subject | None = None
) -> list[Cause]:
    """As `keep`, but the causes themselves, the likeliest first."""
    log = _content(output)
    # What is known for certain comes before what the output says; the exit code, which follows from it, comes last.
    ends = [fact for fact in facts if fact.startswith(EXIT_CODE)]
    log = _text(fact for fact in facts if fact not in ends) + log
    if ends:
        log += (b"" if not log or log.endswith(b"\n") else b"\n") + _text(ends)
    if not log.strip():
        return []
    _write(log, subject)
    from reprokit.explain.judge import explain

    try:
        return explain(io.BytesIO(log), failed=True, good=good_lines(subject)).causes
    except (OSError, ReprokitError):  # a rule of the user's that is wrong; `explain --last` names it
        return []


def shown(causes: Sequence[Cause], subject: Subject | None = None) -> tuple[str, ...]:
    """Lines about the likeliest cause, with the changes to the recipe that failed; none if no rule knows it."""
    from reprokit.explain.remedy import remedy

    if not causes or not causes[0].is_known:
        return ()
    cause = causes[0]
    return (
        f"cause: {cause.sentence[:_SHOWN]}",
        f"remedy: {'; '.join(remedy(cause, subject))[:_SHOWN]}",
        f"`reprokit explain --last` shows line {cause.line} of the log, its neighbours and other possible causes",
    )


def explain_by(
    error: ReprokitError,
    output: OutputRecording | bytes | str,
    facts: Sequence[str] = (),
    subject: Subject | None = None,
) -> None:
    """Keep the output of what failed, and explain the error by it."""
    error.causes = tuple(causes_of(output, facts, subject))
    error.explanation, error.log_kept = shown(error.causes, subject), True


def keep_error(error: ReprokitError, subject: Subject | None = None) -> None:
    """Keep the text of an error as the log of the last failure, unless a log of the error is kept already."""
    if not error.log_kept:
        where, hint = f" ({error.where})" if error.where else "", [f"hint: {error.hint}"] if error.hint else []
        lines = [f"error: {error.message}{where}", *hint, *error.explanation]
        keep_text(redact("\n".join(lines)), subject)


def keep_text(text: str, subject: Subject | None = None) -> None:
    """Keep the text of an error, which says itself what is wrong, as the log of the last failure."""
    _write(text.encode("utf-8", "replace"), subject, error=True)


def _content(output: OutputRecording | bytes | str) -> bytes:
    if isinstance(output, str):
        return output.encode("utf-8", "replace")
    return output.content() if isinstance(output, OutputRecording) else output


def _text(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")


def _write(log: bytes, subject: Subject | None, error: bool = False) -> None:
    """Write the last failure. Never raises, as the failure itself must reach the user."""
    target = subject.target if subject else None
    failure = LastFailure(
        verb=VERB.get(),
        recipe=str(target.path) if target else "",
        variant=target.variant_name if target else "",
        block=subject.block if subject else "",
        time=datetime.now().astimezone().isoformat(timespec="seconds"),
        error=error,
    )
    line = _WHAT_FAILED + json.dumps(asdict(failure)).encode() + b"\n"
    with contextlib.suppress(OSError, ReprokitError):
        paths.write_private(log_path(), log + (b"" if log.endswith(b"\n") else b"\n") + line)


@contextlib.contextmanager
def explained(target: Target | None = None) -> Iterator[None]:
    """Explain an error that leaves the context from its own text, unless that was done if its output is known."""
    try:
        yield
    except UsageError:
        raise
    except ReprokitError as error:
        if not (error.cause_known or error.explanation or error.causes):
            from reprokit.explain.remedy import Subject

            explain_by(error, f"{error.message}\n{error.where}\n", subject=Subject(target) if target else None)
        raise
