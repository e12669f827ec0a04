"""End a command in a container: the Engine API can start commands, but not end them."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable

from reprokit.engine import Engine
from reprokit.errors import EngineError

# All processes that a command starts inherit this variable, even in another session.
_VARIABLE = "REPROKIT_COMMAND"

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


def new_mark() -> tuple[str, str]:
    """A variable and its value, which mark all processes of a command."""
    return _VARIABLE, secrets.token_hex(12)


def end(engine: Engine, container: str, mark: str, user: str, wait: Callable[[float], None]) -> None:
    """End every process marked `mark`: as by Ctrl-C, then by SIGTERM, then by SIGKILL.

    `wait(seconds)` returns when the command itself has ended, or after that time. A second interrupt kills at once.
    Does nothing where the engine no longer answers.
    """
    with contextlib.suppress(EngineError):
        try:
            if _signal(engine, container, mark, user, "INT", 2):
                return
            wait(_INTERRUPT_SECONDS)
            for signal, tenths in _STEPS:
                if _signal(engine, container, mark, user, signal, tenths):
                    return
        except KeyboardInterrupt:
            _signal(engine, container, mark, user, "KILL", 20)


def _signal(engine: Engine, container: str, mark: str, user: str, signal: str, tenths: int) -> bool:
    # As the command's user: with the engine's default capabilities not even root can read another user's environ.
    argv = ["sh", "-c", _SCRIPT, "end", signal, f"{_VARIABLE}={mark}", str(tenths)]
    exec_id = engine.exec_create(container, argv, user=user)
    for _ in engine.exec_stream(exec_id):
        pass
    return engine.exec_exit_code(exec_id) == 0
