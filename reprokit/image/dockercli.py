"""Finding a Docker CLI that can use BuildKit, which the first on PATH may not be."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from reprokit.errors import EngineError

_TIMEOUT_S = 20


@dataclass(frozen=True)
class Cli:
    """A Docker CLI and its command that builds with BuildKit."""

    path: str
    build: tuple[str, ...]


def find_cli() -> Cli:
    """Raises EngineError with all that were tried if no CLI on PATH can use BuildKit."""
    tried = []
    for path in _candidates():
        cli = _able(path)
        if cli:
            return cli
        tried.append(path)
    raise EngineError(
        "no Docker CLI on PATH can use BuildKit" + (f" (tried {', '.join(tried)})" if tried else ""),
        hint="install the buildx plugin (docker-buildx), or build with --builder classic",
    )


def _candidates() -> list[str]:
    found: dict[Path, str] = {}
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        path = Path(folder) / "docker"
        if folder and os.access(path, os.X_OK) and path.is_file():  # skips folders of other users
            found.setdefault(path.resolve(), str(path))
    return list(found.values())


def _able(path: str) -> Cli | None:
    if _run(path, "buildx", "version") is not None:
        # Other builders than the engine's own have their own network and image store.
        return Cli(path, (path, "buildx", "build", "--builder=default", "--load"))
    match = re.search(r"version (\d+)\.(\d+)", _run(path, "--version") or "")
    # From 18.09 to 22 the CLI itself has BuildKit; from 23 on it needs buildx.
    if match and (18, 9) <= (int(match[1]), int(match[2])) < (23, 0):
        return Cli(path, (path, "build"))
    return None


def _run(*command: str) -> str | None:
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
