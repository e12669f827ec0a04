"""The helper program that reprokit runs inside containers: static, so that no file of an image affects it.

Its source is `helper.c`; `build.sh` compiles it.
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
