from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from reprokit.supply.store import Store
from tests.support.fetching import Fetch
from tests.support.file_server import Server


@pytest.fixture
def server(no_proxies: None) -> Iterator[Server]:
    one = Server()
    yield one
    one.close()


@pytest.fixture
def fetch(tmp_path: Path) -> Fetch:
    return Fetch(Store(tmp_path / "store"))
