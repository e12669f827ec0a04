"""The log of an unexpected error: versions, the engine and the traceback, for a report of the bug."""

from __future__ import annotations

import os
import platform
import traceback
from datetime import datetime
from importlib.metadata import version
from pathlib import Path

from reprokit import paths
from reprokit.doctor.bounded import Bounded
from reprokit.explain import last
from reprokit.redact import environment_secrets, masking, redact

_ENGINE_S = 4.0
_LIBRARIES = ("docker", "pydantic", "typer", "requests")


def write(error: Exception, program: str) -> Path:
    """Write the log without secrets of the environment, and keep it for `explain --last`.

    `program` is reprokit's own version. Raises OSError, EngineError if the state folder cannot be written.
    """
    lines = [
        f"{program}, verb {last.VERB.get() or 'none'}",
        f"Python {platform.python_version()}, {platform.platform()}",
        ", ".join(f"{name} {version(name)}" for name in _LIBRARIES),
        f"engine: {_engine()}",
        "".join(traceback.format_exception(error)),
    ]
    text = masking(environment_secrets(os.environ))(redact("\n".join(lines)))
    last.keep_text(text)
    path = paths.state() / "failures" / f"bug-{datetime.now():%Y%m%d-%H%M%S}-{os.getpid()}.log"
    paths.write_private(path, text.encode("utf-8", "replace"))
    return path


def _engine() -> str:
    """The engine's version and address, or why it does not answer. Raises nothing."""
    from reprokit.engine import Engine

    def ask() -> str:
        engine = Engine.connect()
        return f"{engine.version().version} at {engine.url}"

    try:
        return Bounded(ask, _ENGINE_S).result()
    except Exception as error:
        return str(error)
