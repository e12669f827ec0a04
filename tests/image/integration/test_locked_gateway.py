"""Builds behind a locked gateway: what is locked comes from the store, nothing else comes, and layers are shared."""

from __future__ import annotations

import hashlib
import io
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from reprokit.engine import Engine
from reprokit.image.base.resolve import BaseImage
from reprokit.image.events import BuildStep, Built, Cached, Event, Failed, OutputLine
from reprokit.image.render import Rendered, render
from reprokit.image.request import request_of
from reprokit.supply.fetch.pool import fetch_all
from reprokit.supply.kinds.apt.resolve import lock_apt
from reprokit.supply.kinds.kind import Tools
from reprokit.supply.kinds.wheels import KIND as WHEELS
from reprokit.supply.kinds.wheels.pip import PipSettings
from reprokit.supply.lock.model import PlainFile
from reprokit.supply.mirrors.places import Mirrors
from reprokit.supply.served_set import ServedSet
from reprokit.supply.store import Store
from tests.support.builds import rendered
from tests.support.fetching import local_mirrors
from tests.support.locked_builds import LockedBuilds
from tests.support.rendering import target
from tests.support.stores import put
from tests.support.wheels import make_wheel


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("locked") / "store")


@pytest.fixture(scope="module")
def files(store: Store) -> tuple[PlainFile, ...]:
    """A plain file and two archives; one holds a file that only its owner may read."""
    packed, zipped = io.BytesIO(), io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:xz") as tar:
        member = tarfile.TarInfo("src-1.0/main.c")
        member.size, member.mode, member.uid = 3, 0o600, 4711
        tar.addfile(member, io.BytesIO(b"int"))
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.writestr("values/a.csv", "1,2")
    contents = {"weights.bin": b"\x00weights", "src.tar.xz": packed.getvalue(), "data.zip": zipped.getvalue()}
    urls = ("https://forge.test/x",)
    return tuple(PlainFile(name=n, sha256=put(store, c), size=len(c), urls=urls) for n, c in contents.items())


@pytest.fixture
def built(engine: Engine, debian: BaseImage, store: Store, tmp_path: Path) -> Iterator:
    """`built(fields, files)`: a variant on wheels without code, locked, fetched and built."""
    with zipfile.ZipFile(make_wheel(tmp_path, "torch", "2.0", requires=("shared",)), "a") as torch:
        torch.writestr("torch/__init__.py", "__version__ = '2.0'\nclass version:\n    cuda = None\n")
    for name, version in (("shared", "1.0"), ("shared", "2.0"), ("own", "1.0")):
        make_wheel(tmp_path, name, version)
    mirrors = local_mirrors(store, pip=PipSettings(find_links=(tmp_path.as_uri(),)))
    made: list[LockedBuilds] = []

    def build(fields: dict, files: tuple[PlainFile, ...] = ()) -> tuple[LockedBuilds, Rendered, list[Event]]:
        chosen = target(tmp_path, **fields)
        rendered = render(chosen)
        tools = Tools(mirrors, lambda line: None, engine, lambda: debian)
        packages, as_of = lock_apt(rendered.installs, tools)
        wheels = WHEELS.resolve(request_of(chosen, rendered, "x86_64"), tools)["wheels"]
        fetch_all([package.locked_input(as_of) for package in packages], Mirrors(store))
        fetch_all([wheel.locked_input() for wheel in wheels], mirrors)
        served = ServedSet(rendered.sets, apt=packages, wheels=wheels, files=files)
        made.append(LockedBuilds(engine, debian, store, served))
        events, gateway = made[-1](rendered)
        assert isinstance(events[-1], Built), events[-20:]
        assert not gateway.hosts and not gateway.missing and not gateway.refused
        return made[-1], rendered, events

    yield build
    for each in made:
        if engine.image(each.name):
            engine.remove_image(each.name, force=True)


@pytest.mark.network
@pytest.mark.xdist_group("locked-gateway")
def test_everything_locked_is_installed_and_nothing_else_comes(built, files, inside):
    places = [("/opt/model/w.bin", {}), ("/opt/src", {"unpack": True}), ("/opt/data", {"unpack": True})]
    entries = [
        {"name": file.name, "urls": list(file.urls), "sha256": file.sha256, "path": path, **more}
        for file, (path, more) in zip(files, places, strict=True)
    ]
    builds, made, events = built({"apt": ["tree"], "files": entries, "blocks": ["apt", "files"]}, files)
    look = (
        "tree --version | cut -c 1-4; sha256sum < /opt/model/w.bin; stat -c '%a %u' /opt/src/src-1.0/main.c; "
        "find /opt -type f | sort"
    )
    output = inside(builds.name, look)
    assert output.startswith(f"tree\n{files[0].sha256}  -\n644 0\n")
    assert output.split()[-3:] == ["/opt/data/values/a.csv", "/opt/model/w.bin", "/opt/src/src-1.0/main.c"]

    members: dict[str, str] = {}
    for layer in builds.layers():
        for member in (m for m in layer if m.isfile()):
            content = layer.extractfile(member).read()
            assert b"reprokit.invalid" not in content, member.name
            members[hashlib.sha256(content).hexdigest()] = member.name
    of_the_store = {file.sha256 for file in (*builds.served.of("apt"), *files)}
    assert {members[sha256] for sha256 in of_the_store & set(members)} == {"opt/model/w.bin"}

    # Another gateway, on another port and with another password: nothing is done again.
    again, gateway = builds(made)
    steps = [event for event in again if isinstance(event, BuildStep) and event.text.startswith(("RUN", "COPY"))]
    assert steps and sum(isinstance(event, Cached) for event in again) >= len(steps)
    assert gateway.requests == 0 and again[-1] == events[-1]

    # What is not locked is refused by name.
    get = "/usr/lib/apt/apt-helper -o Acquire::Retries=0 download-file"
    events, gateway = builds(
        rendered(
            f"ARG BASE\nFROM ${{BASE}}\nRUN {get} http://forge.test/tool.tar.gz?v=1 /tmp/tool || "
            f"{get} https://forge.test/tool /tmp/tool || apt-get update || exit 3\n"
            "RUN apt-get -o APT::Update::Error-Mode=any update\n"
        )
    )
    assert isinstance(events[-1], Failed)
    assert {"http://forge.test/tool.tar.gz?v=1", "forge.test:443"} < set(gateway.refused)
    assert {host for host in gateway.hosts if "forge" not in host} == set(builds.base.archives)
    assert not gateway.bytes_served


COMMON = {"pins": {"distro": "debian:12", "python": "3.11", "torch": "2.0"}}
ONE = {**COMMON, "wheels": ["shared==1.0"], "blocks": ["python", "torch", "wheels"], "env": {"ARCH": "8.0"}}
OTHER = {
    **COMMON,
    "apt": ["tree"],
    "wheels": ["own==1.0"],
    "blocks": [{"base": {"bash_as_sh": True}}, "python", "torch", "apt", "wheels"],
    "env": {"ARCH": "9.0"},
}


@pytest.mark.network
@pytest.mark.long
@pytest.mark.xdist_group("locked-gateway")
def test_layers_are_shared_up_to_the_first_own_one(built, engine: Engine, inside):
    one, _, _ = built(ONE)
    other, _, events = built(OTHER)
    histories = [engine.history(each.name)[::-1] for each in (one, other)]
    count = 1 + max(n for n, step in enumerate(histories[0]) if "block torch: " in step["CreatedBy"])
    assert [step["Id"] for step in histories[0][:count]] == [step["Id"] for step in histories[1][:count]]
    assert len([step for step in histories[0][:count] if "block " in step["CreatedBy"]]) == 4
    # A step that changed no file has no layer.
    layers = sum(step["Size"] > 0 for step in histories[0][:count])
    first, second = (engine.image(each.name)["RootFS"]["Layers"] for each in (one, other))
    assert layers == 4 and first[:layers] == second[:layers] and first[layers] != second[layers]
    # The other recipe built nothing before its own first step.
    own = next(n for n, event in enumerate(events) if isinstance(event, BuildStep) and event.block == "apt")
    assert not [event for event in events[:own] if isinstance(event, OutputLine)]

    version = "python3 -c 'from importlib.metadata import version; print(version(\"shared\"))'"
    assert inside(one.name, version) == "1.0\n"  # the paper's own pin, over torch's
    assert inside(other.name, f"{version}; tree --version | cut -c 1-4; readlink /bin/sh") == "2.0\ntree\nbash\n"
