"""Fixtures for the tests of bundles."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from reprokit.supply.store import Store
from tests.support.verbs import run_verb


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """$REPROKIT_HOME of this test."""
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def reprokit(home: Path, tmp_path: Path) -> Callable[..., str]:
    """`reprokit(*arguments, code=0)` runs the command in an empty folder and returns its output."""

    def run(*arguments: object, code: int = 0) -> str:
        (tmp_path / "here").mkdir(exist_ok=True)
        done = run_verb(*arguments, cwd=tmp_path / "here")
        assert done.returncode == code, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout + done.stderr

    return run


@pytest.fixture
def node(tmp_path: Path) -> Store:
    """Another machine's store."""
    return Store(tmp_path / "node")
