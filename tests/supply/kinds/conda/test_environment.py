from __future__ import annotations

import hashlib
import io
import json
import sys
import tarfile
from pathlib import Path

import pytest
import yaml

from reprokit.engine import Engine
from reprokit.image.base.resolve import BaseImage
from reprokit.image.events import BuildPlan, Built
from reprokit.image.render import render
from reprokit.image.run import BUILDERS
from reprokit.recipe.find import Target
from reprokit.recipe.load import load_text
from reprokit.supply.gateway import Gateway
from reprokit.supply.kinds.conda.environment import environment
from reprokit.supply.lock.model import CondaPackage
from reprokit.supply.served_set import ServedSet
from reprokit.supply.store import Store
from tests.support.asking import ask
from tests.support.conda_channel import make_package
from tests.support.names import unique


def stored(file: Path, store: Store) -> CondaPackage:
    content = file.read_bytes()
    sha256 = hashlib.sha256(content).hexdigest()
    store.path(sha256).parent.mkdir(parents=True, exist_ok=True)
    store.path(sha256).write_bytes(content)
    name, version, build = file.name.removesuffix(".conda").removesuffix(".tar.bz2").rsplit("-", 2)
    known = {"name": name, "version": version, "build": build, "subdir": file.parent.name, "file": file.name}
    return CondaPackage(**known, channel="conda-forge", sha256=sha256, size=len(content))


@pytest.fixture
def packages(tmp_path: Path, store: Store) -> tuple[CondaPackage, ...]:
    files = [
        make_package(tmp_path / "channel", "tool-kit", "1.0", ("lib",)),
        make_package(tmp_path / "channel", "lib", "1.5", subdir="noarch", old=True),
    ]
    return tuple(stored(file, store) for file in files)


def test_an_environment_is_linked_for_its_place_and_tells_nothing_of_this_host(
    store: Store, packages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "rattler", None)  # it needs no solver
    path = environment(packages, store)
    content = path.read_bytes()
    assert str(tmp_path).encode() not in content
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        assert tar.extractfile("bin/tool-kit").read() == b"#!/bin/sh\necho tool-kit 1.0 in /opt/conda\n"
        record = json.loads(tar.extractfile("conda-meta/lib-1.5-h0_0.json").read())
        assert record["url"] == "conda-forge/noarch/lib-1.5-h0_0.tar.bz2"
        assert all(member.uid == 0 and member.mode & 0o444 == 0o444 for member in tar)
        assert tar.getmember("bin/lib").mode & 0o111 == 0o111
    # The same packages are the same bytes, and made once.
    path.unlink()
    assert environment(tuple(reversed(packages)), store) == path and path.read_bytes() == content
    for package in packages:
        store.path(package.sha256).unlink()
    assert environment(packages, store) == path


def test_it_is_served_for_its_packages_only(store: Store, packages):
    elsewhere = "http://conda.reprokit.invalid/0123456789abcdef/environment.tar"
    with Gateway(store, ServedSet(conda=packages)) as gateway:
        address = f"{gateway.inputs.arguments()['REPROKIT_CONDA']}environment.tar"
        answer, body = ask(gateway, address)
        made = environment(packages, store)
        assert answer.status == 200 and body == made.read_bytes()
        assert ask(gateway, elsewhere)[0].status == 404
        made.unlink()
        store.path(packages[0].sha256).write_bytes(b"no package")
    with Gateway(store, ServedSet(conda=packages)) as gateway:
        answer, body = ask(gateway, address)
        assert answer.status == 500 and b"cannot be linked" in body
    with Gateway(store, ServedSet()) as gateway:
        assert ask(gateway, elsewhere)[0].status == 404


RECIPE = {
    "name": "reprokit-test-conda",
    "paper": {"title": "T", "venue": "V", "year": 2020, "licence": "MIT"},
    "variants": {"v": {"base": "debian:12", "conda": ["tool-kit=1.0", "lib==1.5"], "blocks": ["conda"]}},
}


@pytest.mark.engine
def test_an_image_has_it_first_on_path(engine: Engine, debian_12: BaseImage, store: Store, packages, tmp_path: Path):
    recipe = load_text(yaml.safe_dump(RECIPE), "recipe.yaml", RECIPE["name"])
    made = render(Target(recipe, "v", Path("recipe.yaml")))
    name = unique("conda")
    served = ServedSet(conda=packages)
    with Gateway(store, served, archives=debian_12.archives) as gateway:
        proxies = gateway.build_arguments()
        plan = BuildPlan(
            name, made, debian_12.image_id, debian_12.name, served.arguments(), proxies, {"org.example.test": "1"}
        )
        events = list(BUILDERS["classic"](engine).run(plan))
    assert isinstance(events[-1], Built), events[-10:]
    container = engine.create_container(name, {"Image": name, "Cmd": ["tool-kit"], "User": "1234:1234"})
    try:
        engine.start(container)
        assert b"".join(engine.logs(container, follow=True)) == b"tool-kit 1.0 in /opt/conda\n"
    finally:
        engine.remove(container, force=True)
        engine.remove_image(name, force=True)
