"""What `reprokit lock --update` resolves again, and what must follow."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from reprokit.image.inputs import resolve_inputs
from reprokit.image.lock import resolve
from reprokit.image.lock.resolve import lock_variant, update_of
from reprokit.image.lock.sections import stale
from reprokit.image.render import render
from reprokit.recipe.find import Target
from reprokit.supply.kinds import kind_of
from reprokit.supply.kinds.wheels.pip import PipSettings
from reprokit.supply.lock.model import Base, VariantLock
from reprokit.supply.store import Store
from tests.support.fetching import local_mirrors
from tests.support.rendering import target as target_of
from tests.support.repositories import Repositories
from tests.support.wheels import make_wheel

pytestmark = pytest.mark.slow

PROJECT = '[build-system]\nrequires = ["one"]\n[project]\nname = "tool"\nversion = "1"\ndependencies = {}\n'


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Target:
    """A variant with a project at the branch `main`, and an engine that has its base and needs no apt."""
    base = Base(reference="debian:12", digest=f"sha256:{'0' * 64}")
    monkeypatch.setattr(resolve, "lock_base", lambda *_: base)
    monkeypatch.setattr(resolve, "locked_base", lambda *_: SimpleNamespace(architecture="amd64"))
    monkeypatch.setattr(type(kind_of("apt")), "resolve", lambda *_: {"apt": (), "apt_as_of": ""})
    wheels = ["tool @ git+https://forge.test/team/tool@main"]
    return target_of(tmp_path, pins={"python": "3.11"}, blocks=["python", "wheels"], wheels=wheels)


@pytest.mark.parametrize(("update", "moves"), [("git", True), ("wheels", False), ("all", True)])
def test_wheels_come_from_the_locked_commit_of_a_branch(
    repositories: Repositories, store: Store, target: Target, tmp_path: Path, update: str, moves: bool
):
    for name in ("one", "two", "wheel"):
        make_wheel(tmp_path, name, "1")
    mirrors = local_mirrors(store, pip=PipSettings(find_links=(tmp_path.as_uri(),)))

    def locked(old: VariantLock | None, *names: str) -> tuple[str, set[str]]:
        freed = update_of(names, target, old)
        found = lock_variant(None, target, store, mirrors, old, freed, lambda line: None)  # type: ignore[arg-type]
        assert stale(target, render(target), found) == []
        locks.append(found)
        return found.git[0].commit, {wheel.name for wheel in found.wheels if not wheel.build_only}

    locks: list[VariantLock] = []
    first = repositories.make("team/tool", {"pyproject.toml": PROJECT.format('["one"]')})
    assert locked(None) == (first, {"one"})
    second = repositories.commit("team/tool", {"pyproject.toml": PROJECT.format('["one", "two"]')})
    assert locked(locks[0], update) == ((second, {"one", "two"}) if moves else (first, {"one"}))


def test_wheels_are_resolved_within_the_facts(store: Store, target: Target, tmp_path: Path):
    make_wheel(tmp_path, "matplotlib", "3.7.1", requires=("numpy>=1.20",))
    for version in ("1.26.4", "2.0.2"):
        make_wheel(tmp_path, "numpy", version)
    mirrors = local_mirrors(store, pip=PipSettings(find_links=(tmp_path.as_uri(),)))

    def numpy(matplotlib: str) -> str:
        wheels = target_of(tmp_path, pins={"python": "3.11"}, blocks=["python", "wheels"], wheels=[matplotlib])
        found = lock_variant(None, wheels, store, mirrors, None, update_of([], wheels, None), lambda line: None)  # type: ignore[arg-type]
        unlocked = resolve_inputs(wheels, render(wheels), SimpleNamespace(architecture="x86_64"), mirrors, print)  # type: ignore[arg-type]
        (version,) = {w.version for w in (*found.wheels, *unlocked.served.of("wheels")) if w.name == "numpy"}
        return version

    assert numpy("matplotlib==3.7.1") == "1.26.4"
    make_wheel(tmp_path, "matplotlib", "3.9.2", requires=("numpy>=1.20",))
    assert numpy("matplotlib") == "2.0.2"
