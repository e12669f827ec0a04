"""A lock beside a recipe may be a stranger's: its packages need not be what apt would install."""

from __future__ import annotations

from pathlib import Path

import pytest

from reprokit.image.lock.resolve import lock_variant, update_of
from reprokit.supply.lock.file import lock_path, read
from reprokit.supply.store import Store
from tests.support.fetching import local_mirrors
from tests.support.locks_beside import NONE, Folder
from tests.support.upstream import Upstream


@pytest.fixture
def folder(tmp_path: Path, upstream: Upstream, store: Store) -> Folder:
    return Folder(tmp_path, upstream, store)


@pytest.mark.parametrize("own", [True, False])  # True is the control
def test_the_lock_of_a_stranger_gives_no_package_to_a_new_lock(folder: Folder, own: bool):
    folder.add("evil", "curl", base="1", own=own)
    base, sets, _ = folder.followed(folder.add("new", "curl"))
    assert (base == "1") is own and ("python" in sets) is own


def test_a_lock_that_is_kept_stays_a_strangers(folder: Folder, store: Store, monkeypatch: pytest.MonkeyPatch):
    """`reprokit lock` of a stranger's recipe resolves nothing again if the lock is not stale."""
    target = folder.add("evil", "curl", base="1", own=False)
    old = read(lock_path(target.path)).variants["v"]
    for name in ("Supplier", "locked_base"):
        monkeypatch.setattr(f"reprokit.image.lock.resolve.{name}", _nothing)
    lock_variant(NONE, target, store, local_mirrors(store), old, update_of((), target, old), lambda line: None)
    assert folder.followed(folder.add("new", "curl"))[0] == ""


class _nothing:
    """Stands for an engine with an amd64 base, and for downloads."""

    architecture = "amd64"

    def __init__(self, *_: object) -> None: ...

    def files(self, *_: object) -> None: ...
