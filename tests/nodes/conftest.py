"""The cluster, started for the first test that needs it, recipes in the current folder, and images of registries."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reprokit.engine import Engine
from reprokit.errors import ReprokitError
from reprokit.image.lock.read import fresh_lock, sections
from reprokit.image.render import render
from reprokit.recipe.find import target
from reprokit.supply.lock.file import lock_path, write
from tests.support.cluster import Cluster, cluster
from tests.support.names import unique
from tests.support.registry import Call
from tests.support.stores import a_lock
from tests.support.verbs import run_verb


@pytest.fixture(scope="session")
def _started() -> Iterator[Cluster]:
    if os.geteuid() != 0 or not Path("/usr/sbin/sshd").exists():
        pytest.skip("nodes take root and openssh-server")
    with cluster(3) as started:
        yield started


@pytest.fixture
def nodes(_started: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Cluster]:
    """The cluster, which this process's `ssh` reaches. What a test leaves on the nodes is removed after it."""
    for key, value in _started.environment.items():
        monkeypatch.setenv(key, value)
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path / "reprokit"))
    yield _started
    _started.clear()


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """`recipe(more)` writes a recipe into the current folder, its variants last; returns its unique name."""
    monkeypatch.chdir(tmp_path)

    def make(variants: str = '  cpu: {base: "debian:12"}\n', top: str = "", name: str = "") -> str:
        name = name or unique("nodes")
        (tmp_path / "recipes").mkdir(exist_ok=True)
        text = f"name: {name}\npaper: {{title: T, venue: V, year: 2024, licence: none}}\n{top}variants:\n{variants}"
        (tmp_path / "recipes" / f"{name}.yaml").write_text(text)
        return name

    return make


@pytest.fixture
def locked() -> Callable[[str], str]:
    """`locked(recipe)` writes a lock of its variant `cpu`; returns the label of an image that is built from it."""

    def make(name: str) -> str:
        of_cpu = target(f"{name}:cpu")
        lock = a_lock(name, digest="sha256:" + "1" * 64)
        update = {"inputs": sections(of_cpu, render(of_cpu), "x86_64")}
        lock = lock.model_copy(update={"variants": {"cpu": lock.variants["cpu"].model_copy(update=update)}})
        write(lock_path(of_cpu.path), lock)
        rendered = render(of_cpu)
        lock = fresh_lock(of_cpu, rendered)
        return rendered.locked_hash(lock) if lock else ""

    return make


@pytest.fixture
def name(engine: Engine) -> Iterator[str]:
    """A recipe's name; every image of it is removed after the test."""
    name = unique("registry")
    yield name
    for image in engine.images([f"reprokit.recipe={name}"]):
        for reference in [*image.names, *image.digests, image.id]:
            with contextlib.suppress(ReprokitError):
                engine.remove_image(reference, force=True)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def call(place: Path) -> Call:
    return run_verb
