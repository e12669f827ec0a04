"""The last failure: its log, kept in the state folder, and its cause in two or three lines."""

from __future__ import annotations

import contextlib
import io
import os
import secrets
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from reprokit import paths
from reprokit.errors import ReprokitError, UsageError

if TYPE_CHECKING:
    from reprokit.explain.model import Cause

# Half of a kept log is its beginning, where the first cause is, half its end.
HALF = 4 << 20
# How a fact about an exit code begins.
EXIT_CODE = "reprokit: exit code "
_SHOWN = 400


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


def keep(output: OutputRecording | bytes | str, facts: Sequence[str] = ()) -> tuple[str, ...]:
    """Keep a failure's log for `reprokit explain --last`; return its cause and remedy as lines to show.

    `facts`: evidence that is not in the output, such as an out-of-memory kill. Without a known cause there are no
    lines. Never raises: the failure itself must reach the user.
    """
    return shown(causes_of(output, facts))


def causes_of(output: OutputRecording | bytes | str, facts: Sequence[str] = ()) -> list[Cause]:
    """As `keep`, but the causes themselves, the likeliest first."""
    if isinstance(output, str):
        output = output.encode("utf-8", "replace")
    log = output.content() if isinstance(output, OutputRecording) else output
    # What is known for certain comes before what the output says; the exit code, which follows from it, comes last.
    ends = [fact for fact in facts if fact.startswith(EXIT_CODE)]
    log = _text(fact for fact in facts if fact not in ends) + log
    if ends:
        log += (b"" if not log or log.endswith(b"\n") else b"\n") + _text(ends)
    if not log.strip():
        return []
    with contextlib.suppress(OSError, ReprokitError):
        _write(log)
    from reprokit.explain.judge import explain

    try:
        return explain(io.BytesIO(log), failed=True).causes
    except (OSError, ReprokitError):  # a rule of the user's that is wrong; `explain --last` names it
        return []


def shown(causes: Sequence[Cause]) -> tuple[str, ...]:
    """Lines about the likeliest cause; none where no rule knows it."""
    from reprokit.explain.model import CONFIDENCE

    if not causes or causes[0].confidence < CONFIDENCE["general"]:
        return ()
    cause = causes[0]
    return (
        f"cause: {cause.cause[:_SHOWN]}",
        f"remedy: {'; '.join(cause.remedy.splitlines())[:_SHOWN]}",
        f"`reprokit explain --last` shows line {cause.line} of the log, its neighbours and other possible causes",
    )


def _text(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")


def _write(log: bytes) -> None:
    path = log_path()
    new = paths.private(path.parent) / f".{path.name}.{secrets.token_hex(8)}"
    try:
        # Output may hold secrets of its owner.
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(log)
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Explain an error that leaves the context from its own text, unless that was done where its output is known."""
    try:
        yield
    except UsageError:
        raise
    except ReprokitError as error:
        if not (error.cause_known or error.explanation or error.causes):
            error.causes = tuple(causes_of(f"{error.message}\n{error.where}\n"))
            error.explanation = shown(error.causes)
        raise
