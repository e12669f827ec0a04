"""A new lock takes over the base and the apt packages of a lock beside it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from reprokit.image.lock import resolve
from reprokit.image.lock.beside import locked_apart
from reprokit.supply.kinds import kind_of
from reprokit.supply.lock.model import Base
from reprokit.supply.store import Store
from tests.support.fetching import local_mirrors
from tests.support.locks_beside import NONE, Folder
from tests.support.upstream import Upstream


@pytest.fixture
def folder(tmp_path: Path, upstream: Upstream, store: Store) -> Folder:
    return Folder(tmp_path, upstream, store)


def test_the_lock_with_the_most_in_common_is_followed(folder: Folder):
    folder.add("one", "curl", base="1")
    assert folder.followed(folder.add("new", "git")) == (
        "1",
        {"base": ["base"], "python": ["python"]},
        ["following the lock of one:v: its base and its apt packages of base, python; `--update base` takes today's"],
    )
    folder.add("two", "git", base="2")
    base, sets, _ = folder.followed(folder.add("new", "git"))
    assert base == "2" and set(sets) == {"base", "python", "apt"}


@pytest.mark.parametrize("change", ["no base", "no package", "stale"])
def test_a_stale_lock_or_one_whose_files_are_gone_is_not_followed(folder: Folder, upstream: Upstream, change: str):
    folder.add("one", "curl", base="1")
    if change == "stale":
        folder.add("one", "wget")  # the recipe changes, its lock stays
    else:
        del upstream.answers["/libc6_1.deb" if change == "no base" else "/python_1.deb"]
    assert folder.followed(folder.add("new", "git")) == ("", {}, [])


def test_recipes_that_share_if_they_are_locked_together(folder: Folder):
    one, same, later = (folder.add(n, "curl", base=base) for n, base in (("one", "1"), ("same", "1"), ("later", "2")))
    assert locked_apart([one, later]) == ["one:v", "later:v"]
    assert locked_apart([one, same, folder.add("new", "curl")]) == []


@pytest.mark.parametrize("update", [(), ("base",), ("apt",)])
def test_what_is_updated_follows_nothing(
    folder: Folder, store: Store, monkeypatch: pytest.MonkeyPatch, update: tuple[str, ...]
):
    folder.add("one", "curl", base="1")
    target = folder.add("new", "git")
    today = Base(reference="debian:12", digest=f"sha256:{'0' * 64}")
    taken: list[str] = []
    monkeypatch.setattr(resolve, "lock_base", lambda *_: today)
    monkeypatch.setattr(resolve, "locked_base", lambda *_: SimpleNamespace(architecture="amd64"))
    monkeypatch.setattr(resolve, "Supplier", lambda *_: SimpleNamespace(files=lambda inputs: None))

    def apt(kind: object, request: SimpleNamespace, tools: object) -> dict[str, object]:
        taken.extend(install.block for install in request.followed.sets)
        return {"apt": (), "apt_as_of": ""}

    monkeypatch.setattr(type(kind_of("apt")), "resolve", apt)
    freed = resolve.update_of(update, target, None)
    found = resolve.lock_variant(NONE, target, store, local_mirrors(store), None, freed, lambda line: None)
    assert (found.base == today) is ("base" in update)
    assert taken == ([] if update else ["base", "python"])
