"""The cluster, started for the first test that needs it, and fixtures for tests of registries."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from reprokit.engine import Engine
from reprokit.errors import ReprokitError
from tests.support.cluster import Cluster, cluster
from tests.support.names import unique
from tests.support.registry import Call
from tests.support.verbs import run_verb


@pytest.fixture(scope="session")
def _started() -> Iterator[Cluster]:
    if os.geteuid() != 0 or not Path("/usr/sbin/sshd").exists():
        pytest.skip("nodes take root and openssh-server")
    with cluster() as found:
        yield found


@pytest.fixture
def nodes(_started: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Cluster]:
    """The cluster, which this process's `ssh` reaches. What a test leaves on the nodes is removed after it."""
    for key, value in _started.environment.items():
        monkeypatch.setenv(key, value)
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path / "reprokit"))
    yield _started
    _started.clear()


@pytest.fixture
def name(engine: Engine) -> Iterator[str]:
    """A recipe's name; every image of it is removed after the test."""
    name = unique("registry")
    yield name
    for image in engine.images([f"reprokit.recipe={name}"]):
        for reference in [*(image.get("RepoTags") or []), *(image.get("RepoDigests") or []), image["Id"]]:
            with contextlib.suppress(ReprokitError):
                engine.remove_image(reference, force=True)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def call(place: Path) -> Call:
    return run_verb
