from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from reprokit.config import Configuration
from reprokit.supply.fetch.stop import Stop
from reprokit.supply.mirrors.places import Mirrors
from reprokit.supply.store import Store
from tests.support.git_server import GitServer
from tests.support.repositories import Repositories


@pytest.fixture
def places(store: Store) -> Mirrors:
    return Mirrors(store, Configuration())


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stop, "wait", lambda self, seconds: None)


@pytest.fixture
def next_server(repositories: Repositories, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], GitServer]]:
    """Start an HTTP server of the repositories; git uses the latest one instead of their folders."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    servers: list[GitServer] = []

    def start() -> GitServer:
        servers.append(GitServer(repositories.root))
        monkeypatch.setenv("GIT_CONFIG_KEY_0", f"url.{servers[-1].url}/.insteadOf")
        return servers[-1]

    yield start
    for server in servers:
        server.server.shutdown()
        server.server.server_close()


@pytest.fixture
def server(next_server: Callable[[], GitServer]) -> GitServer:
    return next_server()
