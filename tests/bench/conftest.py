"""Commands on this machine in place of a container."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from reprokit.container.execute import Completed


@pytest.fixture
def here(tmp_path: Path) -> Callable[..., Completed]:
    """Runs commands on this machine as `container.execute` does in a container; folders lie in tmp_path."""

    def execute(argv: list[str], workdir: str = ".", on_output=None, logged: bool = True, timeout=None) -> Completed:
        env = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
        try:
            done = subprocess.run(
                argv, cwd=tmp_path / workdir, env=env, capture_output=True, text=True, timeout=timeout
            )
        except subprocess.TimeoutExpired:
            return Completed(124, timed_out=True)
        if on_output:
            on_output("stdout", done.stdout)
        return Completed(done.returncode, done.stdout, done.stderr)

    return execute
