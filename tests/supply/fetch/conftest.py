from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from reprokit.supply.store import Store
from tests.support.fetching import Fetch
from tests.support.file_server import Server


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    one = Server()
    yield one
    one.close()


@pytest.fixture
def fetch(tmp_path: Path) -> Fetch:
    return Fetch(Store(tmp_path / "store"))
