"""Records for tests."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from reprokit.bench.record import Record
from reprokit.container.execute import Completed

RECORD = Record(
    metric="attention.forward", unit="ms", samples=(1.0, 3.0, 2.0), params={"batch": 8, "impl": "ours"},
    recipe="fused-attention", variant="cpu", benchmark="forward", command="python3 -m bench",
    input_hash="1f" * 32, image_digest="sha256:" + "2e" * 32, cpu="EPYC", threads=2, gpu="", driver="",
    reprokit="0.1.0", time="2026-11-21T09:00:00Z", environment={"torch": "2.13.0+cpu"},
)  # fmt: skip


@pytest.fixture
def record() -> Callable[..., Record]:
    """A believable record with the fields given changed."""
    return lambda **changes: replace(RECORD, **changes)


@pytest.fixture
def here(tmp_path: Path) -> Callable[..., Completed]:
    """Runs commands on this machine as `container.execute` does in a container; folders lie in tmp_path."""

    def execute(argv: list[str], workdir: str = ".", on_output=None, logged: bool = True) -> Completed:
        env = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
        done = subprocess.run(argv, cwd=tmp_path / workdir, env=env, capture_output=True, text=True)
        if on_output:
            on_output("stdout", done.stdout)
        return Completed(done.returncode, done.stdout, done.stderr)

    return execute
