"""A build behind a locked gateway: what is locked comes from the store, nothing stays of it, and nothing else comes."""

from __future__ import annotations

import hashlib
import io
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from reprokit.engine import Engine
from reprokit.errors import WorkFailed
from reprokit.image.base.resolve import BaseImage
from reprokit.image.events import BuildStep
from reprokit.image.render import render
from reprokit.supply.fetch.pool import fetch_all
from reprokit.supply.kinds.apt.resolve import lock_apt
from reprokit.supply.kinds.kind import Tools
from reprokit.supply.lock.model import PlainFile
from reprokit.supply.mirrors import Mirrors
from reprokit.supply.served_set import ServedSet
from reprokit.supply.store import Store
from tests.support.builds import rendered
from tests.support.images import built
from tests.support.locked_builds import LockedBuilds
from tests.support.names import unique
from tests.support.rendering import target
from tests.support.stores import put

LOOK = """
tree --version | cut -c 1-4; sha256sum < /opt/model/w.bin; stat -c '%a %u' /opt/src/src-1.0/main.c
find /opt -type f | sort
"""


@pytest.fixture
def debian(engine: Engine, debian_12: BaseImage) -> Iterator[BaseImage]:
    """Debian 12 as an image of its own: a build may take the steps of another one on the same base."""
    name = unique("debian")
    made = built(engine, f"FROM {debian_12.name}\nLABEL test={name}", tag=name)
    yield replace(debian_12, name=name, image_id=made)
    engine.remove_image(name, force=True)


def archives() -> dict[str, bytes]:
    """Two archives by name; one holds a file that only its owner may read."""
    packed, zipped = io.BytesIO(), io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:xz") as tar:
        member = tarfile.TarInfo("src-1.0/main.c")
        member.size, member.mode, member.uid = 3, 0o600, 4711
        tar.addfile(member, io.BytesIO(b"int"))
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.writestr("values/a.csv", "1,2")
    return {"src.tar.xz": packed.getvalue(), "data.zip": zipped.getvalue()}


@pytest.mark.network
def test_everything_locked_is_installed_and_nothing_else_comes(
    engine: Engine, debian: BaseImage, store: Store, tmp_path: Path, inside, request: pytest.FixtureRequest
):
    contents = {"weights.bin": b"\x00weights", **archives()}
    urls = ("https://forge.test/x",)
    files = [PlainFile(name=n, sha256=put(store, c), size=len(c), urls=urls) for n, c in contents.items()]
    places = [("/opt/model/w.bin", False), ("/opt/src", True), ("/opt/data", True)]
    entries = [
        {"name": file.name, "urls": [*urls], "sha256": file.sha256, "path": path, "unpack": unpack}
        for file, (path, unpack) in zip(files, places, strict=True)
    ]
    made = render(target(tmp_path, apt=["tree"], files=entries, blocks=["apt", "files"]))
    packages, as_of = lock_apt(made.installs, Tools(Mirrors(store), engine, lambda: debian))
    fetch_all([package.locked_input(as_of) for package in packages], Mirrors(store))
    builds = LockedBuilds(engine, debian, store, ServedSet(made.sets, apt=packages, files=files))
    request.addfinalizer(lambda: engine.image(builds.name) and engine.remove_image(builds.name, force=True))
    first, gateway = builds(made), builds.gateway
    assert not gateway.hosts and not gateway.missing and not gateway.refused
    output = inside(builds.name, LOOK)
    assert output.startswith(f"tree\n{files[0].sha256}  -\n644 0\n")
    assert output.split()[-3:] == ["/opt/data/values/a.csv", "/opt/model/w.bin", "/opt/src/src-1.0/main.c"]

    members: dict[str, str] = {}
    for layer in builds.layers():
        for member in (m for m in layer if m.isfile()):
            content = layer.extractfile(member).read()
            assert b"reprokit.invalid" not in content, member.name
            members[hashlib.sha256(content).hexdigest()] = member.name
    of_the_store = {file.sha256 for file in (*packages, *files)}
    assert {members[sha256] for sha256 in of_the_store & set(members)} == {"opt/model/w.bin"}

    # Another gateway, on another port and with another password: nothing is done again.
    layers = [engine.image(each).layers for each in (first, builds(made))]
    again = builds.events
    steps = [event for event in again if isinstance(event, BuildStep) and event.text.startswith(("RUN", "COPY"))]
    assert steps and all(step.cached for step in steps)
    assert builds.gateway.requests == 0 and layers[0] == layers[1]

    # What is not locked is refused by name.
    get = "/usr/lib/apt/apt-helper -o Acquire::Retries=0 download-file"
    with pytest.raises(WorkFailed):
        builds(
            rendered(
                f"ARG BASE\nFROM ${{BASE}}\nRUN {get} http://forge.test/tool.tar.gz?v=1 /tmp/tool || "
                f"{get} https://forge.test/tool /tmp/tool || apt-get update || exit 3\n"
                "RUN apt-get -o APT::Update::Error-Mode=any update\n"
            )
        )
    gateway = builds.gateway
    assert {"http://forge.test/tool.tar.gz?v=1", "forge.test:443"} < set(gateway.refused)
    assert {host for host in gateway.hosts if "forge" not in host} == set(debian.archives)
    assert not gateway.bytes_served
