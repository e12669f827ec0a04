from __future__ import annotations

from pathlib import Path

import pytest

from reprokit.config import Configuration
from reprokit.errors import SourceError
from reprokit.supply.kinds.wheels.platform import Platform
from reprokit.supply.kinds.wheels.resolve import fetch_wheels, resolve_wheels
from reprokit.supply.mirrors.places import Mirrors
from reprokit.supply.store import Store
from tests.support.fetching import HOSTS
from tests.support.wheels import make_wheel

PYTHON_311 = Platform("3.11", "2.36")


@pytest.fixture
def mirrors(store: Store) -> Mirrors:
    return Mirrors(store, Configuration(hosts=HOSTS))


def test_the_same_question_asks_no_index(index: Path, store: Store, mirrors: Mirrors):
    wheel = make_wheel(index, "top", "1.0")
    first = resolve_wheels(["top==1.0"], (), PYTHON_311, (), mirrors, store)
    wheel.unlink()
    assert resolve_wheels(["top==1.0"], (), PYTHON_311, (), mirrors, store) == first
    with pytest.raises(SourceError):
        resolve_wheels(["top==1.0"], (), Platform("3.8", "2.31"), (), mirrors, store)


def test_files_that_left_the_store_are_fetched_again(index: Path, store: Store, mirrors: Mirrors):
    wheel = make_wheel(index, "top", "1.0")
    found = resolve_wheels(["top==1.0"], (), PYTHON_311, (), mirrors, store)
    for _ in range(2):
        fetch_wheels(found, mirrors, store)
        assert store.path(found[0].sha256).read_bytes() == wheel.read_bytes()
        store.path(found[0].sha256).unlink()
