"""The host's git, without prompts and hooks, restricted to safe protocols."""

from __future__ import annotations

import errno
import os
import re
import subprocess
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO

from reprokit.errors import SourceError
from reprokit.redact import redact

# Applied after the user's url.insteadOf. Others, such as `ext::`, would run commands. `file` is for local mirrors.
_SAFE = [
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "gc.auto=0",
    "-c",
    "maintenance.auto=false",
    "-c",
    "protocol.allow=never",
]
for _protocol in ("https", "http", "ssh", "git", "file"):
    _SAFE += ["-c", f"protocol.{_protocol}.allow=always"]

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
    """`base`, or this process's environment, without variables that select another repository or allow prompts."""
    place = (
        "GIT_DIR",
        "GIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_OBJECT_DIRECTORY",
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    )
    kept = {k: v for k, v in (os.environ if base is None else base).items() if k not in place}
    # LFS content is not part of a commit.
    return {**kept, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C", "GIT_LFS_SKIP_SMUDGE": "1"}


def git(*arguments: str, folder: Path | None = None, environ: Mapping[str, str] | None = None) -> str:
    """Run git and return its standard output. `environ` is as `guard.git_environment` gives it.

    Raises GitFailed, OSError where the disk is full, SourceError where git is not installed.
    """
    command = ["git", *_SAFE, *(["-C", str(folder)] if folder else []), *arguments]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            env=environment(environ),
        )
    except FileNotFoundError:
        raise _no_git() from None
    if done.returncode:
        raise _failure(done.stderr.splitlines())
    return done.stdout


def git_says(
    folder: Path, *arguments: str, source: IO[bytes] | None = None, target: IO[bytes] | None = None
) -> tuple[int, list[str]]:
    """Run git on exactly this repository; returns its exit code and every line of output, for commands that report.

    `source` is its standard input, `target` takes its standard output. Raises OSError where the disk is full,
    SourceError where git is not installed.
    """
    command = ["git", *_SAFE, f"--git-dir={folder}", *arguments]
    both = subprocess.STDOUT if target is None else subprocess.PIPE
    try:
        done = subprocess.run(
            command,
            stdin=source or subprocess.DEVNULL,
            stdout=target or subprocess.PIPE,
            stderr=both,
            env=environment(),
        )
    except FileNotFoundError:
        raise _no_git() from None
    said = (done.stdout if target is None else done.stderr).decode(errors="replace").splitlines()
    if done.returncode and _disk_is_full(said):
        raise _failure(said)
    return done.returncode, [redact(line) for line in said]


def git_with_progress(
    folder: Path,
    arguments: list[str],
    say: Callable[[str], None],
    begun: Callable[[subprocess.Popen[str]], None] = lambda process: None,
    environ: Mapping[str, str] | None = None,
) -> None:
    """Run git and report its progress in steps of 10 %. Raises GitFailed, and OSError where the disk is full.

    `begun` gets the process, so that another thread can end it.
    """
    command = ["git", *_SAFE, "-C", str(folder), *arguments]
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
            begun(process)
            assert process.stderr is not None
            for line in process.stderr:  # universal newlines: progress ends in \r
                tail.append(redact(line.rstrip()))
                if match := re.match(r"(?:remote: )?(Receiving objects): +(\d+)% .*?(, [\d.]+ \w+)?", line):
                    step = f"{match[1].lower()} {int(match[2]) // 10 * 10} %"
                    if step != last:
                        say(last := step)
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


def _no_git() -> SourceError:
    return SourceError("git is not installed here", hint="install the package git")


def first_cause(lines: list[str]) -> str:
    """The line with the cause: the first `fatal:`, `error:` or `remote:` line."""
    for words in ("fatal: ", "error: ", "remote: "):
        for line in lines:
            if line.startswith(words) and "the remote end hung up" not in line:
                return redact(line.removeprefix(words))
    return redact(lines[-1]) if lines else "git gave no reason"
