"""Fixtures of the attacks: a home, a user with an empty folder, limits for what must not wait."""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.strangers import User


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """$REPROKIT_HOME; the folder does not exist yet."""
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def user(tmp_path: Path) -> User:
    return User(tmp_path / "user")


@pytest.fixture
def ends() -> Iterator[None]:
    """Fail a test that waits for ever, or reads without end."""

    def late(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, late)
    memory = resource.getrlimit(resource.RLIMIT_AS)
    in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (in_use + (1 << 30), memory[1]))
    signal.alarm(10)
    yield
    signal.alarm(0)
    resource.setrlimit(resource.RLIMIT_AS, memory)
    signal.signal(signal.SIGALRM, before)
