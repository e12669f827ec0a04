"""The host's git, without prompts and hooks, restricted to safe protocols."""

from __future__ import annotations

import errno
import os
import re
import subprocess
from collections import deque
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING

from reprokit.display import Notify
from reprokit.errors import SourceError
from reprokit.host.command import Flood, exchanged
from reprokit.redact import redact
from reprokit.untrusted.limits import COMMAND_OUTPUT

if TYPE_CHECKING:
    from reprokit.supply.fetch.stop import Stop

# Applied after the user's url.insteadOf. Others, such as `ext::`, would run commands. `file` is for local mirrors.
_SAFE = []
for _setting in ("core.hooksPath=/dev/null", "gc.auto=0", "maintenance.auto=false", "protocol.allow=never"):
    _SAFE += ["-c", _setting]
for _protocol in ("https", "http", "ssh", "git", "file"):
    _SAFE += ["-c", f"protocol.{_protocol}.allow=always"]

_LONGEST = 10_000  # characters of a line

_REFUSED = (
    "not our ref",
    "unadvertised object",
    "does not support shallow",
    "dumb http transport",
    "couldn't find remote ref",
)


class GitFailed(Exception):
    """git failed; the text is its first `fatal:` or `error:` line."""

    @property
    def refused_by_commit(self) -> bool:
        """Whether the server refuses commits that are not the tip of a branch."""
        return any(words in str(self) for words in _REFUSED)


def environment(base: Mapping[str, str] | None = None) -> dict[str, str]:
    """`base`, or this process's environment, without variables that select another repository or allow prompts.

    git uses the repository of `--git-dir`, or none. The current folder may be in a stranger's, whose settings name
    programs.
    """
    place = (
        "GIT_COMMON_DIR",
        "GIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_OBJECT_DIRECTORY",
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    )
    kept = {k: v for k, v in (os.environ if base is None else base).items() if k not in place}
    # LFS content is not part of a commit.
    return {**kept, "GIT_DIR": os.devnull, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C", "GIT_LFS_SKIP_SMUDGE": "1"}


def git(
    *arguments: str,
    folder: Path | None = None,
    environ: Mapping[str, str] | None = None,
    timeout: float | None = None,
) -> str:
    """Run git on exactly this repository, or on none, and return its standard output.

    `environ` is as `guard.git_environment` gives it, `timeout` in seconds.
    Raises GitFailed, OSError where the disk is full, SourceError where git is not installed.
    """
    arguments = (*([f"--git-dir={folder}"] if folder else []), *arguments)
    code, output, errors = _run(*arguments, environ=environ, timeout=timeout)
    if code:
        raise _failure(errors)
    return output


def git_says(
    folder: Path, *arguments: str, source: IO[bytes] | None = None, target: IO[bytes] | None = None
) -> tuple[int, list[str]]:
    """Run git on exactly this repository; returns its exit code and every line of output, for commands that report.

    `source` is its standard input, `target` takes its standard output. Raises OSError where the disk is full,
    SourceError where git is not installed.
    """
    code, output, errors = _run(f"--git-dir={folder}", *arguments, source=source, target=target)
    lines = [*errors, *output.splitlines()]
    if code and _disk_is_full(lines):
        raise _failure(lines)
    return code, [redact(line) for line in lines]


def _run(
    *arguments: str,
    source: IO[bytes] | None = None,
    target: IO[bytes] | None = None,
    environ: Mapping[str, str] | None = None,
    timeout: float | None = None,
) -> tuple[int, str, list[str]]:
    """Exit code, standard output unless `target` takes it, and the lines of standard error."""
    try:
        process = subprocess.Popen(
            ["git", *_SAFE, *arguments],
            stdin=source or subprocess.DEVNULL,
            stdout=target or subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(environ),
        )
    except FileNotFoundError:
        raise SourceError("git is not installed here", hint="install the package git") from None
    with process:
        try:
            output, errors = exchanged(process, b"", timeout, COMMAND_OUTPUT.most)
        except subprocess.TimeoutExpired:
            raise GitFailed(f"git did not answer within {timeout:g} s") from None
        except Flood:  # a server chooses its messages and the names of its refs
            raise GitFailed(f"git printed more than {COMMAND_OUTPUT.most >> 20} MiB; {COMMAND_OUTPUT.hint}") from None
        finally:
            process.kill()
    return process.returncode, output.decode(errors="replace"), errors.decode(errors="replace").splitlines()


def git_with_progress(
    folder: Path,
    arguments: list[str],
    notify: Notify,
    stop: Stop,
    environ: Mapping[str, str] | None = None,
) -> None:
    """Run git and report its progress in steps of 10 %. Raises GitFailed, Stopped, OSError where the disk is full."""
    command = ["git", *_SAFE, f"--git-dir={folder}", *arguments]
    tail: deque[str] = deque(maxlen=50)
    last = ""
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env=environment(environ),
        start_new_session=True,  # reprokit handles Ctrl-C: git's helpers would each print an error
    ) as process:
        try:
            assert process.stderr is not None
            with stop.ends(process.terminate):
                # Universal newlines, as progress ends in \r. A server may send lines without an end.
                for line in iter(partial(process.stderr.readline, _LONGEST), ""):
                    tail.append(redact(line.rstrip()))
                    if match := re.match(r"(?:remote: )?(Receiving objects): +(\d+)% .*?(, [\d.]+ \w+)?", line):
                        step = f"{match[1].lower()} {int(match[2]) // 10 * 10} %"
                        if step != last:
                            notify(last := step)
        except BaseException:
            process.terminate()
            raise
    if process.returncode:
        raise _failure(list(tail))


def _failure(lines: list[str]) -> Exception:
    if _disk_is_full(lines):
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return GitFailed(first_cause(lines))


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
