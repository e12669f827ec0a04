"""Run a command in a container with its input and output attached; an interrupt ends the command too.

The Engine API can start commands, but not end them: a script in the container sends the signals. If the image's shell
cannot run it, the container is stopped.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from reprokit.container import names
from reprokit.container.log import CommandLog, key
from reprokit.engine import Engine
from reprokit.engine.stream import CommandStream
from reprokit.errors import EngineError
from reprokit.redact import MaskedLines

# The keys by which the engine detaches from a session. Its default begins with Ctrl-P, which shells need.
_DETACH_KEYS = ",".join(["ctrl-^"] * 6)
# The engine has the exit code some time after the end of the output.
_EXIT_CODE_TRIES = 100
# All processes that a command starts inherit this variable, even in another session.
_MARK = "REPROKIT_COMMAND"

# Arguments: signal, mark, tenths of a second to wait. Exit code 0: none of the command's processes is left.
# The signal goes to process groups, because a child with a cleared environment is mostly in its parent's group. Each
# group gets it once, as from a terminal's Ctrl-C: a second signal would interrupt a program's cleanup.
_SCRIPT = """
find_them() { grep -lsaF "$mark" /proc/[0-9]*/environ | while IFS=/ read -r _ _ pid _; do echo "$pid"; done; }
find_groups() {
  groups=
  for pid in $(find_them); do
    { read -r stat < "/proc/$pid/stat"; } 2>/dev/null || continue
    set -- ${stat##*)}
    case " $groups " in *" $3 "*) ;; *) groups="$groups $3" ;; esac
  done
  echo "$groups"
}
mark=$2
for group in $(find_groups); do kill -s "$1" -- "-$group" 2>/dev/null; done
tries=$3
while [ -n "$(find_them)" ]; do
  tries=$((tries - 1))
  [ "$tries" -gt 0 ] || exit 1
  sleep 0.1
done
"""
# A program may save its state after Ctrl-C; its background processes get less time.
_INTERRUPT_SECONDS = 10.0
_STEPS = (("TERM", 30), ("KILL", 20))
# The limit for the script's start on a busy machine. The image's shell could run for ever.
_SHELL_SECONDS = 10.0

Sink = Callable[[bool, bytes], None]


@dataclass(frozen=True)
class Command:
    """`user` None is the container's caller, `workdir` None the container's; `stdin` is a file descriptor.

    The output goes into the container's log under the command line `log_as`, unless that is None, without the values
    that are `hidden`. `timeout` is in seconds.
    """

    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    workdir: str | None = None
    user: str | None = None
    tty: bool = False
    stdin: int | None = None
    log_as: Sequence[str] | None = None
    hidden: Sequence[str] = field(default=(), repr=False)
    timeout: float | None = None


class TimedOut(Exception):
    """A command ran longer than its limit. It was killed if the kernel could kill it."""


def attach(
    engine: Engine,
    container: str,
    command: Command,
    sink: Sink,
    started: Callable[[str], None] = lambda exec_id: None,
) -> int:
    """Run a command to its end and return its exit code; `sink(is_stderr, data)` is called from another thread.

    `started` is called with the command's id. If the sink or this thread raises (Ctrl-C, SIGTERM, a closed pipe), the
    command and all processes that it started are ended first. Raises EngineError, and TimedOut after ending them.
    """
    if command.log_as is None:
        return _run(engine, container, command, sink, started)
    with CommandLog(key(engine, container), command.log_as) as log:
        lines = MaskedLines(log.write, command.hidden)

        def logging_sink(is_stderr: bool, data: bytes) -> None:
            lines.write(data) if command.hidden else log.write(data)
            sink(is_stderr, data)

        try:
            code = _run(engine, container, command, logging_sink, started)
        finally:
            lines.finish()
        log.exited(code)
        return code


def _run(engine: Engine, container: str, command: Command, sink: Sink, started: Callable[[str], None]) -> int:
    mark = secrets.token_hex(12)
    user = command.user or names.command_user(engine, container)
    exec_id = engine.exec_create(
        container,
        list(command.argv),
        stdin=command.stdin is not None,
        tty=command.tty,
        user=user,
        environment=dict(command.env) | {_MARK: mark},
        workdir=command.workdir,
        detach_keys=_DETACH_KEYS,
    )
    with contextlib.closing(engine.exec_attach(exec_id, command.tty)) as stream:
        reader = _Reader(stream, command.tty, sink)
        try:
            reader.start()
            started(exec_id)
            _feed(stream, command.stdin, reader, command.timeout)
            if reader.error is not None:
                raise reader.error
        except BaseException:
            # Keep reading: a program may write much while it cleans up.
            _end(engine, container, exec_id, _Signals(engine, container, mark, user), reader.join)
            reader.join(1)
            raise
    return _exit_code(engine, exec_id)


class _Reader(threading.Thread):
    """Pass output to the sink; `ended` becomes readable at the end of the output, or when the sink has failed."""

    def __init__(self, stream: CommandStream, tty: bool, sink: Sink) -> None:
        super().__init__(daemon=True)
        self._blocks = ((False, data) for data in iter(stream.read, b"")) if tty else stream.frames()
        self._sink = sink
        self.error: BaseException | None = None
        self.ended, self._end = os.pipe()

    def run(self) -> None:
        try:
            for is_stderr, data in self._blocks:
                # After a failure drop the remaining output: Engine 20.10 answers no call about a container while a
                # command's output is stuck.
                if self.error is None:
                    self._try(is_stderr, data)
        except (Exception, SystemExit) as error:
            self.error = self.error or error
        finally:
            self._wake()

    def _try(self, is_stderr: bool, data: bytes) -> None:
        try:
            self._sink(is_stderr, data)
        except (Exception, SystemExit) as error:
            self.error = error
            self._wake()

    def _wake(self) -> None:
        if self._end >= 0:
            os.close(self._end)
            self._end = -1


def _feed(stream: CommandStream, stdin: int | None, reader: _Reader, timeout: float | None) -> None:
    """Pass standard input on until the command's output ends."""
    waiting = [reader.ended] if stdin is None else [reader.ended, stdin]
    deadline = None if timeout is None else time.monotonic() + timeout
    try:
        while True:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            ready, _, _ = select.select(waiting, [], [], left)
            if reader.ended in ready:
                return
            if not ready:
                raise TimedOut
            data = os.read(waiting[1], 1 << 16)
            try:
                if data:
                    stream.write(data)
                else:
                    stream.end_input()
                    waiting = waiting[:1]
            except OSError:  # the command no longer reads
                waiting = waiting[:1]
    finally:
        os.close(reader.ended)


def _exit_code(engine: Engine, exec_id: str) -> int:
    code = _code_of_ended(engine, exec_id)
    if code is None:
        raise EngineError("the engine does not report the command's exit code", hint="see the engine's own log")
    return code


def _code_of_ended(engine: Engine, exec_id: str) -> int | None:
    for _ in range(_EXIT_CODE_TRIES):
        code = engine.exec_exit_code(exec_id)
        if code is not None:
            return code
        time.sleep(0.05)
    return None


def _end(engine: Engine, container: str, exec_id: str, signals: _Signals, wait: Callable[[float], None]) -> None:
    """End a command and what it started. If it still runs after its signals, stop the container.

    Does nothing if the engine no longer answers.
    """
    with contextlib.suppress(EngineError, TimedOut):
        signals.send(wait)
    with contextlib.suppress(EngineError):
        if _code_of_ended(engine, exec_id) is None:
            engine.stop(container, timeout_s=0)


@dataclass(frozen=True)
class _Signals:
    """Signals to every process marked `mark`."""

    engine: Engine
    container: str
    mark: str
    user: str

    def send(self, wait: Callable[[float], None]) -> None:
        """As by Ctrl-C, then by SIGTERM, then by SIGKILL, until no process is left.

        `wait(seconds)` returns when the command itself has ended, or after that time. A second interrupt kills at once.
        Raises TimedOut if the image's shell does not end.
        """
        try:
            if self._signal("INT", 2):
                return
            wait(_INTERRUPT_SECONDS)
            for signal, tenths in _STEPS:
                if self._signal(signal, tenths):
                    return
        except KeyboardInterrupt:
            self._signal("KILL", 20)

    def _signal(self, signal: str, tenths: int) -> bool:
        # As the command's user: with the engine's default capabilities not even root can read another user's environ.
        argv = ["sh", "-c", _SCRIPT, "end", signal, f"{_MARK}={self.mark}", str(tenths)]
        exec_id = self.engine.exec_create(self.container, argv, user=self.user)
        self.engine.exec_start(exec_id)
        deadline = time.monotonic() + tenths / 10 + _SHELL_SECONDS
        while (code := self.engine.exec_exit_code(exec_id)) is None:
            if time.monotonic() > deadline:
                raise TimedOut
            time.sleep(0.05)
        return code == 0
