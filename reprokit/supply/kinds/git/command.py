"""The processor time in which git indexes a pack, by the pack's size: small deltas can make large objects."""

from __future__ import annotations

import errno
import io
import os
import re
import shutil
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING

from reprokit.errors import ReprokitError, SourceError, UsageError
from reprokit.host.command import Flood, exchanged
from reprokit.redact import redact
from reprokit.untrusted.limits import GIT_MEMORY, GIT_SECONDS, PROGRAM_OUTPUT, Limit

if TYPE_CHECKING:
    from reprokit.supply.fetch.download import Stop


# A pack of `_ALL` bytes gets all of git's time, an empty one that of `_LEAST` bytes: 10 s, and 1 s for each MB. TVM's
# history takes 0.1 s for each MB.
_ALL, _LEAST = 600_000_000, 10_000_000
_LOOK_S = 0.2
_UTIME, _SESSION = 11, 3  # in /proc/PID/stat, after the name; the system's time follows the user's
# Applied after the user's url.insteadOf. Others, such as `ext::`, would run commands. `file` is for local mirrors.
_SAFE = []
# Limits that git and the programs that it starts have from their first instruction. A lower one of the user stays.
_LIMITED = '{ ulimit -S -d "$1"; ulimit -S -t "$2"; } 2>/dev/null; shift 2; exec git "$@"'
_LONGEST = 10_000  # characters of a line
_SECONDS = "seconds of processor time"
# Messages of git, curl and `fetch.git_environment`.
_UNREACHABLE = re.compile(
    r"Could not resolve|Failed to connect|Couldn't connect|Connection (refused|timed out)|from proxy after CONNECT"
    r"|CONNECT tunnel failed|cannot be reached"
)


def seconds_for(packed: int) -> int:
    """The time for a pack of so many bytes."""
    return min(GIT_SECONDS.most, max(1, GIT_SECONDS.most * (_LEAST + packed) // _ALL))


def received(folder: Path) -> int:
    """Bytes of the packs in a repository, those included that git still receives."""
    size = 0
    for path in (folder / "objects" / "pack").glob("*pack*"):
        with suppress(FileNotFoundError):
            size += path.stat().st_size
    return size


@contextmanager
def indexing_limited(session: int, folder: Path) -> Iterator[list[int]]:
    """End the processes of a session if its `index-pack` takes longer than the received bytes in `folder` allow.

    Then the list gets the limit in seconds. The size of a pack is unknown until it is complete, so the process cannot
    get a limit at its start.
    """
    exceeded: list[int] = []
    finished = threading.Event()

    def watch() -> None:
        indexer = None
        while not finished.wait(_LOOK_S):
            size = received(folder)
            if size and indexer is None:
                indexer = _indexer(session)
            if indexer and _seconds(indexer) > (most := seconds_for(size)):
                exceeded.append(most)
                with suppress(ProcessLookupError):
                    os.killpg(session, signal.SIGKILL)
                return

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield exceeded
    finally:
        finished.set()
        watcher.join()


def _indexer(session: int) -> Path | None:
    """The folder in /proc of the session's `index-pack`."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if int(_stat(process)[_SESSION]) == session and b"\0index-pack\0" in (process / "cmdline").read_bytes():
                return process
    return None


def _seconds(process: Path) -> float:
    """Processor time so far; 0 once the process has ended."""
    with suppress(OSError):
        return sum(map(int, _stat(process)[_UTIME : _UTIME + 2])) / os.sysconf("SC_CLK_TCK")
    return 0


def _stat(process: Path) -> list[str]:
    return (process / "stat").read_text(errors="replace").rpartition(")")[2].split()


for _setting in ("core.hooksPath=/dev/null", "gc.auto=0", "maintenance.auto=false", "protocol.allow=never"):
    _SAFE += ["-c", _setting]
# git streams larger files instead of reading them into memory. Each of its threads takes memory.
_SAFE += ["-c", "core.bigFileThreshold=16m", "-c", "pack.threads=4"]
for _protocol in ("https", "http", "ssh", "git", "file"):
    _SAFE += ["-c", f"protocol.{_protocol}.allow=always"]


_REFUSED = (
    "not our ref",
    "unadvertised object",
    "does not support shallow",
    "dumb http transport",
    "couldn't find remote ref",
)


class GitFailed(SourceError):
    """git failed; the text is its first `fatal:` or `error:` line."""

    @property
    def refused_by_commit(self) -> bool:
        """Whether the server refuses commits that are not the tip of a branch."""
        return any(words in str(self) for words in _REFUSED)

    @property
    def unreachable(self) -> bool:
        """Whether there was no connection to the server."""
        return bool(_UNREACHABLE.search(str(self)))


def environment(base: Mapping[str, str] | None = None) -> dict[str, str]:
    """`base`, or this process's environment, without variables that select another repository or allow prompts.

    git uses the repository of `--git-dir`, or none. The current folder may be in a stranger's, whose settings name
    programs.
    """
    repository_variables = (
        "GIT_COMMON_DIR",
        "GIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_OBJECT_DIRECTORY",
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    )
    kept = {k: v for k, v in (os.environ if base is None else base).items() if k not in repository_variables}
    # LFS content is not part of a commit.
    return {**kept, "GIT_DIR": os.devnull, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C", "GIT_LFS_SKIP_SMUDGE": "1"}


def start_git(
    *arguments: str,
    stdin: IO[bytes] | int = subprocess.DEVNULL,
    stdout: IO[bytes] | int = subprocess.PIPE,
    stderr: IO[bytes] | int = subprocess.PIPE,
    environ: Mapping[str, str] | None = None,
    start_new_session: bool = False,
    seconds: int | None = None,
) -> subprocess.Popen[bytes]:
    """Start git with limits of memory and processor time, as objects can be small packed and huge unpacked.

    `environ` is as for `environment`, `seconds` a lower limit than GIT_SECONDS. Raises SourceError if git is not
    installed.
    """
    environ = environment(environ)
    if shutil.which("git", path=environ.get("PATH")) is None:
        raise SourceError("git is not installed here", hint="install the package git")
    limits = (str(GIT_MEMORY.most >> 10), str(seconds or GIT_SECONDS.most))
    return subprocess.Popen(
        ["/bin/sh", "-c", _LIMITED, "git", *limits, *_SAFE, *arguments],
        stdin=stdin, stdout=stdout, stderr=stderr, env=environ, start_new_session=start_new_session,
    )  # fmt: skip


def git(
    *arguments: str, folder: Path | None = None, environ: Mapping[str, str] | None = None, timeout: float | None = None
) -> str:
    """Run git on exactly this repository, or on none, and return its standard output.

    `environ` is that of `fetch.git_environment`, `timeout` is in seconds.
    Raises GitFailed, UsageError if git reaches a limit, OSError if the disk is full, SourceError if git is not
    installed.
    """
    arguments = (*([f"--git-dir={folder}"] if folder else []), *arguments)
    code, output, errors = _run(*arguments, environ=environ, timeout=timeout)
    if code:
        raise _failure(code, errors)
    return output


def run_git(
    folder: Path,
    *arguments: str,
    source: IO[bytes] | None = None,
    target: IO[bytes] | None = None,
    seconds: int | None = None,
) -> tuple[int, list[str]]:
    """Run git on exactly this repository; returns its exit code and every line of output, for commands that report.

    `source` is its standard input, `target` takes its standard output, `seconds` is as for `start_git`.
    Raises UsageError if git reaches a limit, OSError if the disk is full, SourceError if git is not installed.
    """
    code, output, errors = _run(f"--git-dir={folder}", *arguments, source=source, target=target, seconds=seconds)
    lines = [*errors, *output.splitlines()]
    if code and not isinstance(failure := _failure(code, lines, seconds), GitFailed):
        raise failure
    return code, [redact(line) for line in lines]


def _run(
    *arguments: str,
    source: IO[bytes] | None = None,
    target: IO[bytes] | None = None,
    environ: Mapping[str, str] | None = None,
    timeout: float | None = None,
    seconds: int | None = None,
) -> tuple[int, str, list[str]]:
    """Exit code, standard output unless `target` takes it, and the lines of standard error."""
    process = start_git(
        *arguments,
        stdin=source or subprocess.DEVNULL,
        stdout=target or subprocess.PIPE,
        environ=environ,
        seconds=seconds,
    )
    with process:
        try:
            output, errors = exchanged(process, b"", timeout, PROGRAM_OUTPUT.most)
        except subprocess.TimeoutExpired:
            raise GitFailed(f"git did not answer within {timeout:g} s") from None
        except Flood:  # a server chooses its messages and the names of its refs
            raise GitFailed(f"git printed more than {PROGRAM_OUTPUT.most >> 20} MiB; {PROGRAM_OUTPUT.hint}") from None
        finally:
            process.kill()
    return process.returncode, output.decode(errors="replace"), errors.decode(errors="replace").splitlines()


def git_with_progress(
    folder: Path,
    arguments: list[str],
    on_step: Callable[[str], None],
    stop: Stop,
    environ: Mapping[str, str] | None = None,
) -> None:
    """Run git; `on_step` gets its progress in steps of 10 %. Raises GitFailed, Stopped, UsageError if git reaches a
    limit, OSError if the disk is full.
    """
    tail: deque[str] = deque(maxlen=50)
    last = ""
    # reprokit handles Ctrl-C in git's place: git's helpers would each print an error.
    with (
        start_git(
            f"--git-dir={folder}", *arguments, stdout=subprocess.DEVNULL, environ=environ, start_new_session=True
        ) as process,
        indexing_limited(process.pid, folder) as exceeded,
    ):
        try:
            assert process.stderr is not None
            # Universal newlines, as progress ends in \r. A server may send lines without an end.
            with io.TextIOWrapper(process.stderr, errors="replace") as text, stop.ends(process.terminate):
                for line in iter(partial(text.readline, _LONGEST), ""):
                    tail.append(redact(line.rstrip()))
                    if match := re.match(r"(?:remote: )?(Receiving objects): +(\d+)% .*?(, [\d.]+ \w+)?", line):
                        step = f"{match[1].lower()} {int(match[2]) // 10 * 10} %"
                        if step != last:
                            on_step(last := step)
        except BaseException:
            process.terminate()
            raise
    if exceeded:
        raise _exceeded(GIT_SECONDS, _SECONDS, exceeded[0])
    if process.returncode:
        raise _failure(process.returncode, list(tail))


def _failure(code: int, lines: list[str], seconds: int | None = None) -> Exception:
    if _disk_is_full(lines):
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    own = "".join(line for line in lines if not line.startswith("remote: "))
    if code == -signal.SIGXCPU or f"died of signal {signal.SIGXCPU.value}" in own:
        return _exceeded(GIT_SECONDS, _SECONDS, seconds)
    if "out of memory" in own.lower() or os.strerror(errno.ENOMEM) in own:
        return _exceeded(GIT_MEMORY, "bytes of memory")
    return GitFailed(first_cause(lines))


def _exceeded(limit: Limit, unit: str, most: int | None = None) -> ReprokitError:
    hint = f"if you trust the repository, raise the limit: {limit.variable}={2 * limit.most}"
    return UsageError(f"git takes more than {most or limit.most} {unit}", hint=hint)


def _disk_is_full(lines: list[str]) -> bool:
    full = os.strerror(errno.ENOSPC), os.strerror(errno.EDQUOT)
    return any(words in line for words in full for line in lines if not line.startswith("remote: "))


def first_cause(lines: list[str]) -> str:
    """The line with the cause: the first `fatal:`, `error:` or `remote:` line."""
    for words in ("fatal: ", "error: ", "remote: "):
        for line in lines:
            if line.startswith(words) and "the remote end hung up" not in line:
                return redact(line.removeprefix(words))
    return redact(lines[-1]) if lines else "git gave no reason"
