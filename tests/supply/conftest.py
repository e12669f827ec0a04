"""Wheels, repositories and an HTTP server, all made here: these tests reach no network."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from reprokit.supply.kinds.git.store import Commit
from reprokit.supply.store import Store
from tests.support.disk import Disk
from tests.support.repositories import Repositories
from tests.support.stores import fetch
from tests.support.upstream import Upstream


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    if os.geteuid() != 0:
        pytest.skip("only root can mount")
    made = Disk(tmp_path / "disk")
    yield made
    made.unmount()


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels that is all that the user's pip configuration knows."""
    folder = tmp_path / "index"
    folder.mkdir()
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.fixture
def repositories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repositories:
    root = tmp_path / "forge"
    root.mkdir()
    settings = {
        f"url.{root}/.insteadOf": "https://forge.test/",
        "user.name": "t",
        "user.email": "t@example.org",
    }
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CONFIG_COUNT", str(len(settings)))
    for number, (key, value) in enumerate(settings.items()):
        monkeypatch.setenv(f"GIT_CONFIG_KEY_{number}", key)
        monkeypatch.setenv(f"GIT_CONFIG_VALUE_{number}", value)
    return Repositories(root)


@pytest.fixture
def upstream(monkeypatch: pytest.MonkeyPatch):
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    server = Upstream()
    yield server
    server.server.shutdown()
    server.server.server_close()


@pytest.fixture
def recipes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder of recipes, in which the user stands; `$REPROKIT_HOME` is the test's own."""
    for name in list(os.environ):
        if name.startswith("REPROKIT_") and name != "REPROKIT_CONFIG":
            monkeypatch.delenv(name)
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path))
    monkeypatch.setattr("reprokit.paths.data_root", lambda: tmp_path / "none")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recipes").mkdir()
    return tmp_path / "recipes"


@pytest.fixture
def commit(repositories: Repositories, store: Store) -> Commit:
    """A commit of team/tool, in the store."""
    head = repositories.make("team/tool", {"a": "1" * 5000, "b": "2"})
    return fetch(store, "team/tool", head)
