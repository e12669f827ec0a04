"""The cluster, started for the first test that asks for it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster import Cluster, cluster


@pytest.fixture(scope="session")
def _started() -> Iterator[Cluster]:
    if os.geteuid() != 0 or not Path("/usr/sbin/sshd").exists():
        pytest.skip("nodes take root and openssh-server")
    with cluster() as found:
        yield found


@pytest.fixture
def nodes(_started: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cluster:
    """The cluster, and this process's `ssh` and files set for it. Images that a test leaves on it stay."""
    for key, value in _started.environment.items():
        monkeypatch.setenv(key, value)
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path / "reprokit"))
    return _started
