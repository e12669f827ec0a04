"""The helper program that reprokit runs inside containers: static, so that nothing of an image changes what it does.

`helper.c` beside this file says what it does; `build.sh` compiles it.
"""

from __future__ import annotations

from pathlib import Path

from reprokit.errors import EngineError

_ARCHITECTURES = ("amd64", "arm64")


def program(architecture: str) -> Path:
    """The program for an engine's architecture, `Arch` of its version (`amd64`, `arm64`). Raises EngineError."""
    if architecture not in _ARCHITECTURES:
        raise EngineError(
            f"reprokit's helper program is not compiled for {architecture or 'an unknown architecture'}",
            hint=f"use an engine on {' or '.join(_ARCHITECTURES)}",
        )
    return Path(__file__).parent / f"helper-{architecture}"
