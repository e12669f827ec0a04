"""Two recipes on the same base, Python and torch share every layer up to the first of their own."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from reprokit.engine import Engine
from reprokit.image.base.resolve import BaseImage
from reprokit.image.events import BuildStep, Built, Event, OutputLine
from reprokit.image.render import Rendered, render
from reprokit.image.request import request_of
from reprokit.supply.fetch.pool import fetch_all
from reprokit.supply.kinds.apt.resolve import lock_apt
from reprokit.supply.kinds.kind import Tools
from reprokit.supply.kinds.wheels import KIND as WHEELS
from reprokit.supply.kinds.wheels.pip import PipSettings
from reprokit.supply.mirrors.places import Mirrors
from reprokit.supply.served_set import ServedSet
from reprokit.supply.store import Store
from tests.support.fetching import local_mirrors
from tests.support.locked_builds import LockedBuilds
from tests.support.rendering import target
from tests.support.wheels import make_wheel

pytestmark = [pytest.mark.engine, pytest.mark.network, pytest.mark.long, pytest.mark.xdist_group("locked-gateway")]

COMMON = {"pins": {"distro": "debian:12", "python": "3.11", "torch": "2.0"}}
ONE = {**COMMON, "wheels": ["shared==1.0"], "blocks": ["python", "torch", "wheels"], "env": {"ARCH": "8.0"}}
OTHER = {
    **COMMON,
    "apt": ["tree"],
    "wheels": ["own==1.0"],
    "blocks": [{"base": {"bash_as_sh": True}}, "python", "torch", "apt", "wheels"],
    "env": {"ARCH": "9.0"},
}
TORCH = "__version__ = '2.0'\nclass version:\n    cuda = None\n"


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("index")
    with zipfile.ZipFile(make_wheel(folder, "torch", "2.0", requires=("shared",)), "a") as torch:
        torch.writestr("torch/__init__.py", TORCH)
    for name, version in (("shared", "1.0"), ("shared", "2.0"), ("own", "1.0")):
        make_wheel(folder, name, version)
    return folder


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("shared") / "store")


def inputs(made: Rendered, chosen, engine: Engine, base: BaseImage, store: Store, index: Path) -> ServedSet:
    """Lock and fetch what a variant takes in."""
    mirrors = local_mirrors(store, pip=PipSettings(find_links=(index.as_uri(),)))
    tools = Tools(mirrors, lambda line: None, engine, lambda: base)
    packages, as_of = lock_apt(made.installs, tools)
    wheels = WHEELS.resolve(request_of(chosen, made, "x86_64"), tools)["wheels"]
    fetch_all([package.locked_input(as_of) for package in packages], Mirrors(store))
    fetch_all([wheel.locked_input() for wheel in wheels], mirrors)
    return ServedSet(made.sets, apt=packages, wheels=wheels)


@pytest.fixture
def built(engine: Engine, debian: BaseImage, store: Store, index: Path, tmp_path: Path) -> Iterator:
    made: list[LockedBuilds] = []

    def build(fields: dict) -> tuple[LockedBuilds, list[Event]]:
        chosen = target(tmp_path, **fields)
        rendered = render(chosen)
        builds = LockedBuilds(engine, debian, store, inputs(rendered, chosen, engine, debian, store, index))
        made.append(builds)
        events, gateway = builds(rendered)
        assert isinstance(events[-1], Built), events[-20:]
        assert not gateway.hosts and not gateway.refused
        return builds, events

    yield build
    for each in made:
        if engine.image(each.name):
            engine.remove_image(each.name, force=True)


def diff_ids(engine: Engine, name: str) -> list[str]:
    return engine.image(name)["RootFS"]["Layers"]  # type: ignore[index]


def test_layers_are_shared_up_to_the_first_own_one(built, engine: Engine, debian: BaseImage, inside):
    one, _ = built(ONE)
    other, events = built(OTHER)
    histories = [engine.history(each.name)[::-1] for each in (one, other)]
    count = 1 + max(n for n, step in enumerate(histories[0]) if "block torch: " in step["CreatedBy"])
    assert [step["Id"] for step in histories[0][:count]] == [step["Id"] for step in histories[1][:count]]
    assert len([step for step in histories[0][:count] if "block " in step["CreatedBy"]]) == 4
    # A step that changed no file has no layer.
    layers = sum(step["Size"] > 0 for step in histories[0][:count])
    first, second = diff_ids(engine, one.name), diff_ids(engine, other.name)
    assert layers == 4 and first[:layers] == second[:layers] and first[layers] != second[layers]
    # The other recipe built nothing before its own first step.
    own = next(n for n, event in enumerate(events) if isinstance(event, BuildStep) and event.block == "apt")
    assert not [event for event in events[:own] if isinstance(event, OutputLine)]

    version = "python3 -c 'from importlib.metadata import version; print(version(\"shared\"))'"
    assert inside(one.name, version) == "1.0\n"  # the paper's own pin, over torch's
    assert inside(other.name, f"{version}; tree --version | cut -c 1-4; readlink /bin/sh") == "2.0\ntree\nbash\n"
