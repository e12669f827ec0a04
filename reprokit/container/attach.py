"""Run one command in a container with its input and output attached; an interrupt here ends the command too."""

from __future__ import annotations

import contextlib
import os
import select
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from reprokit.container import names
from reprokit.container.log import CommandLog, key
from reprokit.container.signals import end, new_mark
from reprokit.engine import Engine
from reprokit.engine.stream import CommandStream
from reprokit.errors import EngineError

# The keys by which the engine detaches from a session. Its default begins with Ctrl-P, which shells need.
_DETACH_KEYS = ",".join(["ctrl-^"] * 6)
# The engine knows the exit code some time after the output has ended.
_EXIT_CODE_TRIES = 100

Sink = Callable[[bool, bytes], None]


@dataclass(frozen=True)
class Command:
    """`user` None is the container's caller, `workdir` None the container's; `stdin` is a file descriptor."""

    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    workdir: str | None = None
    user: str | None = None
    tty: bool = False
    stdin: int | None = None


def attach(
    engine: Engine,
    container: str,
    command: Command,
    sink: Sink,
    started: Callable[[str], None] = lambda exec_id: None,
    log_as: Sequence[str] | None = None,
) -> int:
    """Run a command to its end and return its exit code; `sink(is_stderr, data)` is called from another thread.

    `started` is called with the command's id. Where the sink or this thread raises (Ctrl-C, SIGTERM, a closed pipe),
    the command and all processes that it started are ended first. The output goes into the container's log under the
    command line `log_as`, unless that is None. Raises EngineError.
    """
    if log_as is None:
        return _run(engine, container, command, sink, started)
    with CommandLog(key(engine, container), log_as) as log:

        def logging_sink(is_stderr: bool, data: bytes) -> None:
            log.write(data)
            sink(is_stderr, data)

        code = _run(engine, container, command, logging_sink, started)
        log.exited(code)
        return code


def _run(engine: Engine, container: str, command: Command, sink: Sink, started: Callable[[str], None]) -> int:
    variable, mark = new_mark()
    user = command.user or names.command_user(engine, container)
    exec_id = engine.exec_create(
        container,
        list(command.argv),
        stdin=command.stdin is not None,
        tty=command.tty,
        user=user,
        environment=dict(command.env) | {variable: mark},
        workdir=command.workdir,
        detach_keys=_DETACH_KEYS,
    )
    with contextlib.closing(engine.exec_attach(exec_id, command.tty)) as stream:
        reader = _Reader(stream, command.tty, sink)
        try:
            reader.start()
            started(exec_id)
            _feed(stream, command.stdin, reader)
            if reader.error is not None:
                raise reader.error
        except BaseException:
            # The reader keeps running, as a program that cleans up may write much.
            end(engine, container, mark, user, reader.join)
            reader.join(1)
            raise
    return _exit_code(engine, exec_id)


class _Reader(threading.Thread):
    """Pass output to the sink; `ended` becomes readable at the end of the output, or when the sink has failed."""

    def __init__(self, stream: CommandStream, tty: bool, sink: Sink) -> None:
        super().__init__(daemon=True)
        self._blocks = _plain(stream) if tty else stream.frames()
        self._sink = sink
        self.error: BaseException | None = None
        self.ended, self._end = os.pipe()

    def run(self) -> None:
        try:
            for is_stderr, data in self._blocks:
                # After a failure the rest of the output is read and dropped: Engine 20.10 answers no call about a
                # container while a command's output is stuck.
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


def _plain(stream: CommandStream) -> Iterator[tuple[bool, bytes]]:
    while data := stream.read():
        yield False, data


def _feed(stream: CommandStream, stdin: int | None, reader: _Reader) -> None:
    """Pass standard input on until the command's output ends."""
    waiting = [reader.ended] if stdin is None else [reader.ended, stdin]
    try:
        while True:
            ready, _, _ = select.select(waiting, [], [])
            if reader.ended in ready:
                return
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
    for _ in range(_EXIT_CODE_TRIES):
        code = engine.exec_exit_code(exec_id)
        if code is not None:
            return code
        select.select([], [], [], 0.05)
    raise EngineError("the engine does not report the command's exit code", hint="see the engine's own log")
