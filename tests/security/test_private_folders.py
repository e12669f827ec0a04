"""Folders of reprokit's that another user of the machine would read, or replace files in."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from reprokit import paths
from reprokit.errors import EngineError
from reprokit.supply.store import Store
from tests.support.privileges import as_root
from tests.support.users import as_user, give

NOBODY = 65534


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_folders_are_private(home: Path):
    home.mkdir()
    for folder in (paths.state() / "logs", home / "tmp", home / "locks"):
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o777)
        assert paths.private(folder).stat().st_mode & 0o777 == 0o700
    assert paths.state().stat().st_mode & 0o777 == 0o700
    assert paths.private(home / "new").stat().st_mode & 0o777 == 0o700
    for mode, left in ((0o755, 0o700), (0o777, 0o700), (0o770, 0o750), (0o750, 0o750), (0o2750, 0o2750)):
        (home / "store").mkdir(exist_ok=True)
        (home / "store").chmod(mode)
        with Store().in_use():
            assert (home / "store").stat().st_mode & 0o7777 == left


@as_root()
def test_folders_of_another_user_are_refused(home: Path):
    home.mkdir()
    for folder, shared in ((home / "tmp", False), (home / "store", True)):
        folder.mkdir()
        folder.chmod(0o777)
        os.chown(folder, NOBODY, NOBODY)
        with pytest.raises(EngineError, match="belongs to another user"):
            paths.private(folder, shared)
    (home / "store").chmod(0o755)
    assert paths.private(home / "store", shared=True)


@as_root()
def test_another_user_reads_a_store_only_where_its_group_may(short_folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(short_folder))
    store = Store(short_folder / "store")
    with store.in_use(), store.scratch() as scratch:
        (Path(scratch) / "file").write_text("content")
        sha256 = store.add(Path(scratch) / "file")
    store.remember("kind", "key", 1)

    def use(remembered: int) -> tuple[str, int | None]:
        own = Store(store.root)
        with own.in_use(print):
            found = own.path(sha256).read_text(), own.remembered("kind", "key")
            own.remember("kind", "key", remembered)
        return found

    def use_as_another() -> tuple[str, int | None]:
        return as_user(lambda: use(3), NOBODY, NOBODY, reads_all=False)

    assert use(2) == ("content", 1)  # and so all is imported that the other user could perhaps not read
    with pytest.raises(AssertionError, match="Permission denied"):
        use_as_another()
    give(store.root, 0, NOBODY)
    store.root.chmod(0o750)
    assert use_as_another() == ("content", None)
    assert store.remembered("kind", "key") == 2


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder that other users reach."""
    with tempfile.TemporaryDirectory(prefix="reprokit-", dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)
