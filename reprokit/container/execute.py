"""Run a command in a running container and capture its output."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from reprokit.container.attach import Command, TimedOut, attach
from reprokit.container.evidence import watching
from reprokit.engine import Engine
from reprokit.errors import WorkFailed
from reprokit.untrusted.limits import COMMAND_OUTPUT

# When a command cannot be started, the engine writes this to its standard output. The exit code is 126 for every
# cause.
NOT_STARTED = "OCI runtime exec failed: "


@dataclass(frozen=True)
class Completed:
    """Bytes of the output that are not UTF-8 are replaced. `facts` are evidence beside the output of a failed command.

    The exit code of a command that ran out of time is 124, as that of timeout(1).
    """

    exit_code: int
    stdout: str = ""
    stderr: str = ""
    facts: tuple[str, ...] = ()
    timed_out: bool = False


def execute(
    engine: Engine,
    container: str,
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    workdir: str | None = None,
    user: str | None = None,
    on_output: Callable[[str, str], None] | None = None,
    logged: bool = True,
    timeout: float | None = None,
) -> Completed:
    """Run `argv` without input to its end; after `timeout` seconds it is interrupted.

    `on_output(stream, text)` gets "stdout" or "stderr" and text as it arrives, from another thread. An interrupt ends
    the command and is raised again. A command that could not be started has exit code 126, or 127 if it does not
    exist, and the reason in `stderr`. Raises EngineError, and WorkFailed for more output than limits.COMMAND_OUTPUT.
    """
    captured = [_Captured(container, "stdout", on_output), _Captured(container, "stderr", on_output)]
    command = Command(argv, env or {}, workdir, user, log_as=argv if logged else None, timeout=timeout)
    timed_out = False
    with watching(engine, container) as evidence:
        try:
            code = attach(engine, container, command, lambda is_stderr, data: captured[is_stderr].add(data))
        except TimedOut:
            code, timed_out = 124, True
        out, err = (stream.finish() for stream in captured)
        facts = evidence.facts(code, f"{out}\n{err}".encode(), timed_out)
    if reason := refusal(code, out):
        return Completed(reason[0], "", reason[1])
    return Completed(code, out, err, facts, timed_out)


def refusal(exit_code: int, output: str) -> tuple[int, str] | None:
    """The exit code that a shell would give, and the reason, if the engine reports that nothing was started."""
    if exit_code not in (126, 127) or not output.startswith(NOT_STARTED):
        return None
    reason = output.removeprefix(NOT_STARTED).strip().removesuffix(": unknown")
    reason = reason.rpartition("process: ")[2].removeprefix("exec failed: ").removeprefix("exec: ")
    missing = "executable file not found" in reason or reason.endswith("no such file or directory")
    return (127 if missing and "chdir" not in reason else 126), reason


class _Captured:
    """The text of one output stream. An error that `add` raises ends the command."""

    def __init__(self, container: str, name: str, on_output: Callable[[str, str], None] | None) -> None:
        self._container, self._name = container, name
        self._on_output = on_output
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._parts: list[str] = []
        self._left = COMMAND_OUTPUT.most

    def add(self, data: bytes, final: bool = False) -> None:
        text = self._decoder.decode(data, final)
        self._left -= len(data)
        if self._left < 0:
            raise WorkFailed(
                f"the command wrote more than {COMMAND_OUTPUT.most >> 20} MiB, the limit for captured output",
                self._container,
                f"let it write less, or into a file of the workspace; {COMMAND_OUTPUT.hint}",
            )
        if text:
            self._parts.append(text)
        if text and self._on_output:
            self._on_output(self._name, text)

    def finish(self) -> str:
        self.add(b"", final=True)
        return "".join(self._parts)
