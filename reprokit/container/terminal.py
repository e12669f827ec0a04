"""The user's own terminal, or pipes, on a command in a container."""

from __future__ import annotations

import contextlib
import os
import select
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
) -> int:
    """Run `argv` on our own standard input, output and error; returns its exit code.

    At a terminal the command gets one too, of its size and its kind, and Ctrl-C goes to the command. Elsewhere
    input is passed on if it is not a terminal, and an interrupt ends the command. Raises WorkFailed with the
    shell's exit code, 126 or 127, where the command could not be started; EngineError.
    """
    terminal = at_terminal()
    stdin = 0 if terminal or not _is_terminal(0) else None
    how = Attached(env=env, user=user, tty=terminal, stdin=stdin)
    note: list[bytes] = []
    with contextlib.ExitStack() as stack:
        log = stack.enter_context(CommandLog(key(engine, container), argv)) if logged else None

        def sink(is_stderr: bool, data: bytes) -> None:
            if note or data.startswith(NOT_STARTED.encode()):
                note.append(data)
                return
            if log:
                log.write(data)
            _write(2 if is_stderr else 1, data)

        stack.enter_context(_hangup_ends())
        if terminal:
            stack.enter_context(_raw(0))
        code = attach(engine, container, argv, how, sink, _sized(engine, stack) if terminal else _nothing)
        if log:
            log.exited(code)
    text = b"".join(note)
    if reason := refusal(code, text.decode(errors="replace")):
        failed = WorkFailed(f"cannot run it: {reason[1]}", container)
        failed.exit_code = reason[0]
        raise failed
    _write(1, text)
    return code


def _nothing(exec_id: str) -> None:
    pass


def _is_terminal(descriptor: int) -> bool:
    try:
        return os.isatty(descriptor)
    except OSError:
        return True


def _write(descriptor: int, data: bytes) -> None:
    while data:
        try:
            data = data[os.write(descriptor, data) :]
        except BlockingIOError:  # someone who shares the terminal made it non-blocking
            select.select([], [descriptor], [])


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
