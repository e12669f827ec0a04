from __future__ import annotations

from pathlib import Path

import pytest

from reprokit.errors import SourceError
from reprokit.supply.fetch.pool import fetch_all
from reprokit.supply.kinds.wheels.pip import PipSettings
from reprokit.supply.kinds.wheels.platform import Platform, WheelRequest
from reprokit.supply.kinds.wheels.resolve import resolve_wheels
from reprokit.supply.mirrors.places import Mirrors
from reprokit.supply.store import Store
from tests.support.fetching import local_mirrors
from tests.support.wheels import PYTHON_311, make_wheel


@pytest.fixture
def mirrors(index: Path, store: Store) -> Mirrors:
    return local_mirrors(store, pip=PipSettings(find_links=(index.as_uri(),)))


def test_the_same_question_asks_no_index(index: Path, store: Store, mirrors: Mirrors):
    wheel = make_wheel(index, "top", "1.0")
    first = resolve_wheels(WheelRequest(["top==1.0"], PYTHON_311), mirrors)
    wheel.unlink()
    assert resolve_wheels(WheelRequest(["top==1.0"], PYTHON_311), mirrors) == first
    with pytest.raises(SourceError):
        resolve_wheels(WheelRequest(["top==1.0"], Platform("3.8", "2.31")), mirrors)


def test_files_that_left_the_store_are_fetched_again(index: Path, store: Store, mirrors: Mirrors):
    wheel = make_wheel(index, "top", "1.0")
    found = resolve_wheels(WheelRequest(["top==1.0"], PYTHON_311), mirrors)
    for _ in range(2):
        fetch_all([wheel.locked_input() for wheel in found], mirrors)
        assert store.path(found[0].sha256).read_bytes() == wheel.read_bytes()
        store.path(found[0].sha256).unlink()


def test_constraints_hold_for_what_something_requires(index: Path, store: Store, mirrors: Mirrors):
    make_wheel(index, "top", "1.0", requires=("part",))
    for name in ("part", "other"):
        for version in ("1.5", "2.0"):
            make_wheel(index, name, version)
    request = WheelRequest(["top==1.0"], PYTHON_311, constraints=["part<2", "other<2"])
    found = {wheel.name: wheel.version for wheel in resolve_wheels(request, mirrors)}
    assert found == {"top": "1.0", "part": "1.5"}


def test_constraints_are_part_of_the_question(index: Path, store: Store, mirrors: Mirrors):
    make_wheel(index, "top", "1.0", requires=("part",))
    for version in ("1.5", "2.0"):
        make_wheel(index, "part", version)
    for constraints, version in (((), "2.0"), (("part<2",), "1.5"), ((), "2.0")):
        request = WheelRequest(["top==1.0"], PYTHON_311, constraints=constraints)
        assert [w.version for w in resolve_wheels(request, mirrors) if w.name == "part"] == [version]
