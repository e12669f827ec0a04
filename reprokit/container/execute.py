"""Run a command in a running container and keep what it wrote."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from reprokit.container.attach import Attached, attach
from reprokit.container.log import CommandLog, key
from reprokit.engine import Engine
from reprokit.errors import WorkFailed
from reprokit.untrusted.limits import COMMAND_OUTPUT

# The engine answers on standard output when a command could not be started, and the exit code is 126 for
# every cause.
NOT_STARTED = "OCI runtime exec failed: "


@dataclass(frozen=True)
class Completed:
    """`stdout` and `stderr` are empty where they were not captured; bytes that are not UTF-8 are replaced."""

    exit_code: int
    stdout: str = ""
    stderr: str = ""


def execute(
    engine: Engine,
    container: str,
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    workdir: str | None = None,
    user: str | None = None,
    on_output: Callable[[str, str], None] | None = None,
    capture: bool = True,
    logged: bool = True,
) -> Completed:
    """Run `argv` with no input, to its end.

    `on_output(stream, text)` gets "stdout" or "stderr" and text as it comes, from another thread. An
    interrupt ends the command and is raised again. A command that could not be started has exit code 126 or,
    where it does not exist, 127, and the reason in `stderr`. Raises EngineError, and
    WorkFailed where more than limits.COMMAND_OUTPUT was to be captured.
    """
    streams = [_Stream("stdout", on_output, capture), _Stream("stderr", on_output, capture)]
    how = Attached(env=env, workdir=workdir, user=user)
    if not logged:
        code = attach(engine, container, argv, how, lambda is_stderr, data: streams[is_stderr].add(data))
    else:
        with CommandLog(key(engine, container), argv) as log:

            def sink(is_stderr: bool, data: bytes) -> None:
                log.write(data)
                streams[is_stderr].add(data)

            code = attach(engine, container, argv, how, sink)
            log.exited(code)
    out, err = (stream.finish() for stream in streams)
    if any(stream.cut for stream in streams):
        raise WorkFailed(
            f"the command wrote more than {COMMAND_OUTPUT >> 20} MiB, which is not kept",
            container,
            "let it write less, or into a file of the workspace",
        )
    if reason := refusal(code, out):
        return Completed(reason[0], "", reason[1])
    return Completed(code, out, err)


def refusal(exit_code: int, output: str) -> tuple[int, str] | None:
    """The shell's exit code and the reason, where `output` is the engine's note that nothing was started."""
    if exit_code not in (126, 127) or not output.startswith(NOT_STARTED):
        return None
    reason = output.removeprefix(NOT_STARTED).strip().removesuffix(": unknown")
    reason = reason.rpartition("process: ")[2].removeprefix("exec failed: ").removeprefix("exec: ")
    missing = "executable file not found" in reason or reason.endswith("no such file or directory")
    return (127 if missing and "chdir" not in reason else 126), reason


class _Stream:
    def __init__(self, name: str, on_output: Callable[[str, str], None] | None, capture: bool) -> None:
        self._name = name
        self._on_output = on_output
        self._capture = capture
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._parts: list[str] = []
        self._room = COMMAND_OUTPUT
        self.cut = False

    def add(self, data: bytes, final: bool = False) -> None:
        text = self._decoder.decode(data, final)
        if self._capture:
            self._room -= len(data)
            self.cut = self._room < 0
        if text and self._capture and not self.cut:
            self._parts.append(text)
        if text and self._on_output:
            self._on_output(self._name, text)

    def finish(self) -> str:
        self.add(b"", final=True)
        return "".join(self._parts)
