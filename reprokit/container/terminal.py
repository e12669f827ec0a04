"""The user's own terminal, or pipes, on a command in a container."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import termios
import threading
import tty
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from reprokit.container.attach import Attached, attach
from reprokit.container.execute import NOT_STARTED, refusal
from reprokit.container.log import CommandLog, key
from reprokit.engine import Engine
from reprokit.errors import WorkFailed
from reprokit.untrusted.text import Output

# A command that was just started may have no terminal yet: the engine refuses its size for some milliseconds.
_RESIZE_TRIES = 50


def at_terminal() -> bool:
    """Whether input and output are a terminal that is ours now; a background job must not touch it."""
    try:
        return os.isatty(0) and os.isatty(1) and os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False


def interact(
    engine: Engine,
    container: str,
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    user: str | None = None,
    logged: bool = True,
    tty: bool = False,
) -> int:
    """Run `argv` on our own standard input, output and error; returns its exit code.

    With `tty`, for callers that are `at_terminal`, the command gets a terminal of our size and kind, and Ctrl-C. Else
    an interrupt ends it, and no control character of its output reaches a terminal. Raises WorkFailed with the shell's
    exit code, 126 or 127, where the command could not be started; EngineError.
    """
    stdin = 0 if at_terminal() or not _is_terminal(0) else None
    how = Attached(env=env, user=user, tty=tty, stdin=stdin)
    outputs = Output(1, raw=tty), Output(2)
    note: list[bytes] = []
    with contextlib.ExitStack() as stack:
        log = stack.enter_context(CommandLog(key(engine, container), argv)) if logged else None

        def sink(is_stderr: bool, data: bytes) -> None:
            if note or data.startswith(NOT_STARTED.encode()):
                note.append(data)
                return
            if log:
                log.write(data)
            outputs[is_stderr].write(data)

        stack.enter_context(_hangup_ends())
        if tty:
            stack.enter_context(_raw(0))
        code = attach(engine, container, argv, how, sink, _sized(engine, stack) if tty else _nothing)
        if log:
            log.exited(code)
    text = b"".join(note)
    if reason := refusal(code, text.decode(errors="replace")):
        failed = WorkFailed(f"cannot run it: {reason[1]}", container)
        failed.exit_code = reason[0]
        raise failed
    outputs[0].write(text)
    return code


def _nothing(exec_id: str) -> None:
    pass


def _is_terminal(descriptor: int) -> bool:
    try:
        return os.isatty(descriptor)
    except OSError:
        return True


def _sized(engine: Engine, stack: contextlib.ExitStack) -> Callable[[str], None]:
    """Once the command has started: its terminal gets our size, now and whenever ours changes."""

    def resize(exec_id: str) -> bool:
        columns, rows = os.get_terminal_size(1)
        return engine.exec_resize(exec_id, rows, columns)

    def started(exec_id: str) -> None:
        for _ in range(_RESIZE_TRIES):
            if resize(exec_id):
                break
            threading.Event().wait(0.02)
        before = signal.signal(signal.SIGWINCH, lambda *_: (resize(exec_id), None)[1])
        stack.callback(signal.signal, signal.SIGWINCH, before)

    return started


@contextlib.contextmanager
def _raw(descriptor: int) -> Iterator[None]:
    """Keys go to the command as they are; whatever happens the terminal is put back."""
    before = termios.tcgetattr(descriptor)
    tty.setraw(descriptor)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


@contextlib.contextmanager
def _hangup_ends() -> Iterator[None]:
    """A lost connection unwinds like Ctrl-C and ends the command, unless the user said `nohup`."""
    before: Any = signal.getsignal(signal.SIGHUP)
    if before != signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGHUP, lambda *_: sys.exit(129))
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)
