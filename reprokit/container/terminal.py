"""Connect a command in a container to the user's terminal or pipes."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import termios
import threading
import tty
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from reprokit.container.attach import Command, attach
from reprokit.container.evidence import watching
from reprokit.container.execute import NOT_STARTED, refusal
from reprokit.display import notify
from reprokit.engine import Engine
from reprokit.errors import WorkFailed
from reprokit.explain.last import OutputRecording, keep, keep_success
from reprokit.explain.remedy import Subject
from reprokit.recipe.find import Target
from reprokit.redact import masking
from reprokit.untrusted.terminal import Output

# A command has no terminal for some milliseconds after its start, and the engine refuses to set its size.
_RESIZE_TRIES = 50


def at_terminal() -> bool:
    """Whether this process is in the foreground of a terminal; a background job must not touch it."""
    try:
        return os.isatty(0) and os.isatty(1) and os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False


def interact(engine: Engine, container: str, command: Command, target: Target | None = None) -> int:
    """Run a command on this process's standard input, output and error; returns its exit code.

    With `tty`, for callers that are `at_terminal`, the command gets a terminal of the same size, and Ctrl-C. Else an
    interrupt ends it, and no control character of its output reaches a terminal. A remedy for a failure names lines
    of the recipe of `target`. Raises EngineError, and WorkFailed with the shell's exit code, 126 or 127, if the command
    could not be started.
    """
    command = replace(command, stdin=0 if at_terminal() or not _is_terminal(0) else None)
    outputs, recording = (Output(1, raw=command.tty), Output(2)), OutputRecording()
    not_started: list[bytes] = []
    with contextlib.ExitStack() as stack:

        def sink(is_stderr: bool, data: bytes) -> None:
            if not_started or data.startswith(NOT_STARTED.encode()):
                not_started.append(data)
                return
            outputs[is_stderr].write(data)
            recording.write(data)

        stack.enter_context(_hangup_ends())
        if command.tty:
            stack.enter_context(_raw(0))
        started = _resizer(engine, stack) if command.tty else lambda exec_id: None
        evidence = stack.enter_context(watching(engine, container))
        code = attach(engine, container, command, sink, started)
        facts = evidence.facts(code, recording.content())
    text = b"".join(not_started)
    if reason := refusal(code, text.decode(errors="replace")):
        failed = WorkFailed(f"cannot run it: {reason[1]}", container)
        failed.exit_code = reason[0]
        raise failed
    outputs[0].write(text)
    # A terminal session exits with the code of its last command, whose output the user saw.
    if not command.tty:
        mask = masking(command.hidden)
        output = mask(recording.content().decode(errors="surrogateescape")).encode(errors="surrogateescape")
        subject = Subject(target) if target else None
        if code:
            for line in keep(output, [mask(fact) for fact in facts], subject):
                notify(line)
        elif subject:
            keep_success(output, subject)
    return code


def _is_terminal(descriptor: int) -> bool:
    try:
        return os.isatty(descriptor)
    except OSError:
        return True


def _resizer(engine: Engine, stack: contextlib.ExitStack) -> Callable[[str], None]:
    """Return a function that keeps a command's terminal at the size of this one."""

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
    """Pass all keys to the command; the terminal is always restored."""
    before = termios.tcgetattr(descriptor)
    tty.setraw(descriptor)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


@contextlib.contextmanager
def _hangup_ends() -> Iterator[None]:
    """Let a lost connection end the command as Ctrl-C does, except under `nohup`."""
    before: Any = signal.getsignal(signal.SIGHUP)
    if before != signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGHUP, lambda *_: sys.exit(129))
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)
