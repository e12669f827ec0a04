"""Folders of reprokit's that another user of the machine would read, or replace files in."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from reprokit import paths
from reprokit.errors import EngineError, UsageError
from reprokit.supply.store import Store
from tests.support.privileges import as_root
from tests.support.users import as_user, give

NOBODY = 65534


@pytest.fixture(autouse=True)
def _nothing_is_known_of_a_path() -> None:
    """Tests in another order may have folders of one name."""
    paths._resolved_for.cache_clear()


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
def test_folders_of_another_user_are_refused(home: Path, tmp_path: Path):
    """The store may be that of a group, or a link to it."""
    home.mkdir()
    for folder, shared in (("tmp", False), ("store", True), ("../theirs", True)):
        (home / folder).mkdir()
        (home / folder).chmod(0o757)
        os.chown(home / folder, NOBODY, NOBODY)
        with pytest.raises(EngineError, match="belongs to another user"):
            paths.private(home / folder, shared)
    (home / "store").chmod(0o755)
    assert paths.private(home / "store", shared=True)
    (home / "store").rmdir()
    (home / "store").symlink_to(tmp_path / "theirs")
    with pytest.raises(EngineError, match="belongs to another user"), Store().in_use():
        pass
    (tmp_path / "theirs").chmod(0o750)
    with Store().in_use():
        assert (tmp_path / "theirs").stat().st_mode & 0o777 == 0o750


@as_root()
@pytest.mark.parametrize("of", ["home", "parent", "link"])
@pytest.mark.parametrize(
    ("owner", "mode", "refused"),
    [
        (NOBODY, 0o755, "belongs to another user"),
        (0, 0o777, "other users can"),
        (0, 0o775, "other users can"),
        (0, 0o755, ""),
    ],
)
def test_a_home_that_another_user_can_change_is_refused(tmp_path, monkeypatch, of, owner, mode, refused):
    parent = tmp_path / "parent"
    (parent / "real").mkdir(parents=True)
    home = parent / "real"
    if of == "link":
        home = tmp_path / "link"
        home.symlink_to("parent/real")
        mode = 0o755 if owner else mode
    changed = {"home": home, "parent": parent, "link": home if owner else parent}[of]
    monkeypatch.setenv("REPROKIT_HOME", str(home))
    os.lchown(changed, owner, NOBODY)
    if not changed.is_symlink():
        changed.chmod(mode)
    if refused:
        for use in (paths.home, paths.state, lambda: Store().remember("kind", "key", 1)):
            with pytest.raises(EngineError, match=refused):
                use()
        assert not list((parent / "real").iterdir())
    else:
        assert paths.private(paths.state() / "logs") == parent / "real" / "state" / "logs"


@as_root()
def test_a_home_in_a_sticky_folder_is_used_if_nobody_else_made_it(tmp_path, monkeypatch):
    tmp = tmp_path / "tmp"
    tmp.mkdir()
    tmp.chmod(0o1777)
    monkeypatch.setenv("REPROKIT_HOME", str(tmp / "home"))
    assert paths.private(paths.home()) == tmp / "home"
    monkeypatch.setenv("REPROKIT_HOME", str(tmp / "planted" / "home"))
    (tmp / "planted").symlink_to(tmp_path)  # by another user, to a folder of ours
    os.lchown(tmp / "planted", NOBODY, NOBODY)
    with pytest.raises(EngineError, match="belongs to another user"):
        paths.home()


@pytest.mark.parametrize("link", ["state", "state/logs", "tmp"])
def test_no_link_below_the_home_is_followed(home: Path, tmp_path: Path, link: str):
    mine = tmp_path / "mine"
    mine.mkdir(mode=0o755)
    (home / link).parent.mkdir(parents=True)
    (home / link).symlink_to(mine)
    folder = home / ("tmp" if link == "tmp" else "state/logs")
    with pytest.raises(UsageError, match="a link is in the way"):
        paths.private(folder)
    assert mine.stat().st_mode & 0o777 == 0o755 and not list(mine.iterdir())
    (home / link).unlink()  # the control
    assert paths.private(folder).is_dir()


@as_root()
def test_another_user_reads_a_store_only_where_its_group_may(short_path: Path, monkeypatch):
    monkeypatch.setenv("HOME", str(short_path))
    short_path.chmod(0o755)
    store = Store(short_path / "store")
    with store.in_use(), store.scratch() as scratch:
        (Path(scratch) / "file").write_text("content")
        sha256 = store.add(Path(scratch) / "file")
    store.remember("kind", "key", 1)

    def use(remembered: int) -> tuple[str, int | None]:
        own = Store(store.root)
        with own.in_use():
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
