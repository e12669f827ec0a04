"""Own blocks, whose templates may come from strangers: rendered in a process of its own, and what it writes checked."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

import reprokit
from reprokit.errors import UsageError
from reprokit.host.command import Flood, exchanged
from reprokit.recipe import fields as f
from reprokit.recipe.blocks import OwnBlock, shared_template
from reprokit.untrusted.model import FrozenModel

# Wall-clock limit, for a process that sleeps. One that computes ends after 3 s of processor time.
_LIMIT_S = 120
_MOST = 4 << 20  # bytes of an answer
_NEUTRAL = "/"
_INCLUDES = ("compiler.j2", "driverless.j2", "expect.j2", "secrets.j2")
_PROGRAM = "import sys; sys.path.insert(0, sys.argv[1]); from reprokit.image.sandbox import main; main()"
_Component = Literal["contrib", "non-free", "non-free-firmware", "multiverse", "restricted", "universe"]


class RenderedPart(FrozenModel):
    """What a part writes, not yet checked, and what it asks apt for: packages and components."""

    text: str
    installs: tuple[tuple[tuple[f.AptPackage, ...], tuple[_Component, ...]], ...]


def render_own(block: OwnBlock, facts: Mapping[str, Any]) -> dict[str, RenderedPart]:
    """The parts `build` and `final` of an own block. Raises UsageError with the line of its template."""
    includes = {name: shared_template(name) for name in _INCLUDES}
    job = {"template": block.template, "includes": includes, "parts": {"build": facts, "final": facts}}
    answer = _answer(json.dumps(job))
    try:
        found = json.loads(answer)
        if "error" in found:
            where = f"{block.path}:{int(found['line'])}" if found["line"] else str(block.path)
            raise UsageError(f"block {block.spec.name}: {str(found['error'])[:500]}", where)
        parts = {name: RenderedPart.model_validate(found["parts"][name]) for name in ("build", "final")}
    except ValidationError as error:
        problem = f"block {block.spec.name} asks apt for what is not a package: {error.errors()[0].get('input')!r}"
        raise UsageError(problem, str(block.path)) from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise UsageError(
            f"block {block.spec.name} cannot be rendered: it takes too much time or memory",
            str(block.path),
            "use fewer nested loops",
        ) from None
    if parts["build"].text and not block.spec.build_from:
        raise UsageError(
            f"block {block.spec.name} has a part `build`, and its comment no `build_from`",
            str(block.path),
            "write `build_from: image`, or `build_from: base` for what needs no block before it",
        )
    if not (parts["build"].text or parts["final"].text):
        raise UsageError(f"block {block.spec.name} writes nothing", str(block.path), "write a part `final`")
    return parts


@lru_cache(maxsize=64)
def _answer(job: str) -> bytes:
    """What the process answers; empty if it was stopped."""
    # Without the user's environment, which may have secrets.
    environment = {key: os.environ[key] for key in ("LD_LIBRARY_PATH",) if key in os.environ}
    process = subprocess.Popen(
        [sys.executable, "-I", "-c", _PROGRAM, str(Path(reprokit.__file__).parent.parent)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=_NEUTRAL,
        env=environment,
        start_new_session=True,
    )
    try:
        return exchanged(process, job.encode(), _LIMIT_S, _MOST)[0]
    except (Flood, subprocess.TimeoutExpired):
        return b""
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream:
                stream.close()
