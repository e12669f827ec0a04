from __future__ import annotations

import hashlib
import time
from pathlib import Path

import pytest

from reprokit.errors import UsageError
from reprokit.supply.kinds.git.store import folder_of
from reprokit.supply.lock import file as lock_file
from reprokit.supply.lock.model import RecordFile
from reprokit.supply.locked_input import Commit
from reprokit.supply.store import Store
from reprokit.supply.upkeep import PARTIAL_S, YOUNG_S, Plan, everything, free, plan, verify
from tests.support.stores import a_lock, plain, put, write_recipe

LATER = YOUNG_S + 60


def collect(store: Store, everything: bool = False, after_s: float = 0) -> Plan:
    with store.alone():
        planned = plan(store, everything, time.time() + after_s)
        free(store, planned)
    return planned


def test_what_locks_name_stays(store: Store, recipes: Path, tmp_path: Path, commit: Commit):
    for content in (b"named", b"data", b"used", b"no"):
        put(store, content)
    write_recipe(recipes, a_lock("x", [plain(b"named")], [commit], data=[plain(b"data")]))
    used = lock_file.lock_path(write_recipe(tmp_path / "elsewhere", a_lock("y", [plain(b"used")])))
    store.used(used)
    with store.alone():
        assert len(plan(store, everything=True).removed) == 1
    assert store.path(plain(b"no").sha256).exists()  # planning frees nothing
    collected = collect(store, everything=True)
    assert [each.size for each in collected.removed] == [2] and collected.size == 2
    named = {plain(content).sha256 for content in (b"named", b"data", b"used")}
    assert {each.key for each in collected.named} == {*named, commit}
    assert not store.path(plain(b"no").sha256).exists()
    assert all(store.path(sha256).exists() for sha256 in named) and folder_of(commit, store).exists()
    used.unlink()
    collect(store, everything=True)
    assert not store.path(plain(b"used").sha256).exists()


def test_what_is_young_stays_for_a_day(store: Store, recipes: Path, commit: Commit):
    sha256 = put(store, b"young")
    assert {each.key for each in collect(store).young} == {sha256, commit}
    assert store.path(sha256).exists()
    collect(store, after_s=LATER)
    assert not store.path(sha256).exists() and not folder_of(commit, store).exists()
    assert not list((store.root / "tmp").iterdir())


def test_a_lock_that_cannot_be_read_stops_it(store: Store, recipes: Path):
    sha256 = put(store, b"named")
    (recipes / "x.lock.yaml").write_text("<<<<<<< HEAD\n")
    with pytest.raises(UsageError) as error:
        collect(store, everything=True)
    assert "x.lock.yaml" in error.value.where
    assert store.path(sha256).exists()


def test_partial_downloads_are_kept_for_a_week(store: Store, recipes: Path):
    folder = store.root / "partial"
    folder.mkdir(parents=True)
    (folder / ("a" * 64)).write_text("x")
    assert collect(store, after_s=PARTIAL_S - 60).leftovers == ()
    assert len(collect(store, after_s=PARTIAL_S + 60).leftovers) == 1 and not list(folder.iterdir())


def test_scratch_of_the_dead_goes_and_answers_stay(store: Store, recipes: Path):
    dead = store.root / "tmp" / "dead"
    (dead / "repository").mkdir(parents=True)
    (dead / "repository" / "pack").write_bytes(b"x" * 100)
    store.remember("wheels", "k", [1])
    half = store.root / "index" / "wheels" / "tmpabc"
    half.write_text("[")
    assert collect(store, everything=True).size == 100
    assert not dead.exists()
    assert half.exists()  # who remembers takes no lock: it may be about to be renamed
    collect(store, after_s=LATER)
    assert not half.exists() and store.remembered("wheels", "k") == [1]


def test_an_interrupted_removal_of_a_repository_leaves_none_that_is_half(
    store: Store, recipes: Path, commit, monkeypatch
):
    def killed(path: Path) -> None:
        (path / "HEAD").unlink()
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("shutil.rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            collect(store, everything=True)
    assert verify(store).bad == () and not folder_of(commit, store).exists()
    collect(store)
    assert not list((store.root / "tmp").iterdir())


def test_a_commit_over_ssh_is_named(store: Store, recipes: Path, commit: Commit):
    over_ssh = Commit(f"ssh://git@{commit.name}", commit.commit)
    assert folder_of(over_ssh, store) == folder_of(commit, store)
    write_recipe(recipes, a_lock("x", commits=[over_ssh]))
    assert {each.key for each in collect(store, everything=True).named} == {commit}
    assert folder_of(commit, store).exists()
    rows = [(row.kind, row.name, row.locks) for row in everything(store)]
    assert rows == [("git", commit.name, ("x:cpu",))]


def test_data_whose_checksum_no_lock_has_yet_is_named(store: Store, recipes: Path):
    content = b"data of a record"
    sha256 = put(store, content)
    md5 = hashlib.md5(content, usedforsecurity=False).hexdigest()
    file = RecordFile(name="d.tar", source="zenodo:1", urls=("https://x.test/d",), md5=md5, size=len(content))
    write_recipe(recipes, a_lock("x").model_copy(update={"data": (file,)}))
    file.locked_input().learned(store, sha256)  # and the lock could not be written
    assert {each.key for each in collect(store, everything=True).named} == {sha256}
    assert store.path(sha256).exists() and [row.name for row in everything(store)] == ["d.tar"]
