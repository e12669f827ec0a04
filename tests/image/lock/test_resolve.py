"""What a new lock resolves, and what it takes from an earlier one or from a lock beside it."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from reprokit.image.inputs import resolve_inputs
from reprokit.image.lock import resolve
from reprokit.image.lock.beside import locked_apart
from reprokit.image.lock.read import stale
from reprokit.image.lock.resolve import lock_variant, update_of
from reprokit.image.render import render
from reprokit.recipe.find import Target
from reprokit.supply.kinds import kind_of
from reprokit.supply.kinds.wheels.pip import PipSettings
from reprokit.supply.lock.file import read
from reprokit.supply.lock.model import Base, VariantLock
from reprokit.supply.store import Store
from reprokit.supply.upkeep import verify
from tests.support.desk import Desk
from tests.support.fetching import local_mirrors
from tests.support.locks_beside import NONE, Folder
from tests.support.rendering import target as target_of
from tests.support.repositories import Repositories
from tests.support.upstream import Upstream
from tests.support.wheels import make_wheel

PROJECT = '[build-system]\nrequires = ["one"]\n[project]\nname = "tool"\nversion = "1"\ndependencies = {}\n'
BASE = Base(reference="debian:12", digest=f"sha256:{'0' * 64}")


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Target:
    """A variant with a project at the branch `main`, and an engine that has its base and needs no apt."""
    monkeypatch.setattr(resolve, "lock_base", lambda *_: BASE)
    monkeypatch.setattr("reprokit.image.lock.supplies.locked_base", lambda *_: SimpleNamespace(architecture="amd64"))
    monkeypatch.setattr(type(kind_of("apt")), "resolve", lambda *_: {"apt": (), "apt_as_of": ""})
    wheels = ["tool @ git+https://forge.test/team/tool@main"]
    return target_of(tmp_path, pins={"python": "3.11"}, blocks=["python", "wheels"], wheels=wheels)


def locked(target: Target, store: Store, folder: Path, old: VariantLock | None = None, *update: str) -> VariantLock:
    """The lock of a target whose wheels are in `folder`."""
    mirrors = local_mirrors(store, pip=PipSettings(find_links=(folder.as_uri(),)))
    return lock_variant(NONE, target, mirrors, old, update_of(update, target, old))


@pytest.mark.slow
def test_wheels_come_from_the_locked_commit_of_a_branch(
    repositories: Repositories, store: Store, target: Target, tmp_path: Path
):
    for name in ("one", "two", "wheel"):
        make_wheel(tmp_path, name, "1")
    first = repositories.make("team/tool", {"pyproject.toml": PROJECT.format('["one"]')})
    old = locked(target, store, tmp_path)
    assert (old.git[0].commit, {wheel.name for wheel in old.wheels if not wheel.build_only}) == (first, {"one"})
    second = repositories.commit("team/tool", {"pyproject.toml": PROJECT.format('["one", "two"]')})
    for update, commit, names in (
        ("wheels", first, {"one"}),
        ("git", second, {"one", "two"}),
        ("all", second, {"one", "two"}),
    ):
        lock = locked(target, store, tmp_path, old, update)
        assert stale(target, render(target), lock) == []
        assert (lock.git[0].commit, {wheel.name for wheel in lock.wheels if not wheel.build_only}) == (commit, names)


@pytest.mark.slow
def test_wheels_are_resolved_within_the_facts(store: Store, target: Target, tmp_path: Path):
    make_wheel(tmp_path, "matplotlib", "3.7.1", requires=("numpy>=1.20",))
    for version in ("1.26.4", "2.0.2"):
        make_wheel(tmp_path, "numpy", version)
    mirrors = local_mirrors(store, pip=PipSettings(find_links=(tmp_path.as_uri(),)))

    def numpy(matplotlib: str) -> str:
        wheels = target_of(tmp_path, pins={"python": "3.11"}, blocks=["python", "wheels"], wheels=[matplotlib])
        lock = locked(wheels, store, tmp_path)
        unlocked = resolve_inputs(wheels, render(wheels), SimpleNamespace(architecture="x86_64"), mirrors)  # type: ignore[arg-type]
        (version,) = {w.version for w in (*lock.wheels, *unlocked.served.of("wheels")) if w.name == "numpy"}
        return version

    assert numpy("matplotlib==3.7.1") == "1.26.4"
    make_wheel(tmp_path, "matplotlib", "3.9.2", requires=("numpy>=1.20",))
    assert numpy("matplotlib") == "2.0.2"


# Locks beside it.


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
    taken: list[str] = []
    monkeypatch.setattr(resolve, "lock_base", lambda *_: BASE)
    image = SimpleNamespace(architecture="amd64")
    monkeypatch.setattr(resolve, "Supplier", lambda *_: SimpleNamespace(base=lambda engine, base: image))

    def apt(kind: object, request: SimpleNamespace, tools: object) -> dict[str, object]:
        taken.extend(install.block for install in request.followed.sets)
        return {"apt": (), "apt_as_of": ""}

    monkeypatch.setattr(type(kind_of("apt")), "resolve", apt)
    freed = update_of(update, target, None)
    lock = lock_variant(NONE, target, local_mirrors(store), None, freed)
    assert (lock.base == BASE) is ("base" in update)
    assert taken == ([] if update else ["base", "python"])


@pytest.mark.long
@pytest.mark.kills(1)
def test_no_half_lock_and_no_half_file_is_left(engine, served, tmp_path, kills: int):
    desk = Desk(tmp_path, served[1])
    started = time.monotonic()
    desk.run("lock", desk.recipe)
    takes = time.monotonic() - started
    whole = read(desk.lock).variants
    quietly = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True}
    command = [sys.executable, "-m", "reprokit", "lock", desk.recipe, "--update", "all"]
    for _ in range(kills):
        if random.random() < 0.5:
            desk.lock.unlink(missing_ok=True)
        with subprocess.Popen(command, cwd=desk.root, env=desk.environment, **quietly) as process:
            time.sleep(random.uniform(0, takes))  # only the moment is random; what is judged is what was left
            os.killpg(process.pid, signal.SIGKILL)
        if desk.lock.exists():
            assert (left := read(desk.lock).variants) and left.items() <= whole.items()
        assert verify(Store(desk.root / "home" / "store")).bad == ()
    desk.run("lock", desk.recipe)
    assert read(desk.lock).variants == whole
