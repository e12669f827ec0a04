"""Builds of both builders behind a locked gateway: what is locked comes from the store, and nothing else comes."""

from __future__ import annotations

import hashlib
import io
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

import pytest

from reprokit.engine import Engine
from reprokit.image.base.resolve import BaseImage
from reprokit.image.events import BuildStep, Built, Cached, Failed
from reprokit.image.render import render
from reprokit.supply.gateway import Gateway
from reprokit.supply.lock.model import AptPackage, PlainFile
from reprokit.supply.policy import pass_all
from reprokit.supply.served_set import ServedSet
from reprokit.supply.store import Store
from tests.support.builds import rendered
from tests.support.locked_builds import LockedBuilds
from tests.support.names import unique
from tests.support.rendering import target

pytestmark = [pytest.mark.engine, pytest.mark.network, pytest.mark.xdist_group("locked-gateway")]

# What the blocks of these builds install.
PACKAGES = "ca-certificates curl tree unzip xz-utils"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("locked") / "store")


@pytest.fixture(scope="module")
def packages(engine: Engine, debian: BaseImage, store: Store, tmp_path_factory) -> tuple[AptPackage, ...]:
    """The distribution's own, with all that they need on this base."""
    folder = tmp_path_factory.mktemp("packages")
    script = (
        f"apt-get update && apt-get install -y -d --no-install-recommends {PACKAGES} && "
        "cp /var/cache/apt/archives/*.deb /packages && chmod a+r /packages/*"
    )
    with Gateway(store, ServedSet(), archives=debian.archives) as gateway:
        config = {
            "Image": debian.image_id,
            "Cmd": ["sh", "-ec", script],
            "Env": [f"{name}={value}" for name, value in gateway.build_arguments().items()],
            "HostConfig": {"NetworkMode": "host", "Binds": [f"{folder}:/packages"]},
        }
        container = engine.create_container(unique("locked"), config)
        try:
            engine.start(container)
            said = b"".join(engine.logs(container, follow=True)).decode()
        finally:
            engine.remove(container, force=True)
    files = sorted(folder.glob("*.deb"))
    assert files, said
    return tuple(locked_package(file, store) for file in files)


def locked_package(file: Path, store: Store) -> AptPackage:
    """The package of a file that apt named, which is moved into the store."""
    name, version, architecture = unquote(file.stem).split("_")
    plain = stored(store, file.name, file.read_bytes())
    known = {"name": name, "version": version, "architecture": architecture}
    return AptPackage(**known, archive="debian", path=f"pool/{file.name}", sha256=plain.sha256, size=plain.size)


def stored(store: Store, name: str, content: bytes) -> PlainFile:
    sha256 = hashlib.sha256(content).hexdigest()
    store.path(sha256).parent.mkdir(parents=True, exist_ok=True)
    store.path(sha256).write_bytes(content)
    return PlainFile(name=name, sha256=sha256, size=len(content), urls=("https://forge.test/x",))


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
    return tuple(stored(store, name, content) for name, content in contents.items())


def place(file: PlainFile, path: str, **more: object) -> dict[str, object]:
    return {"name": file.name, "urls": list(file.urls), "path": path, **more}


@pytest.fixture
def builds(engine: Engine, debian: BaseImage, store: Store, packages, files) -> Iterator[LockedBuilds]:
    made = LockedBuilds(engine, debian, store, ServedSet(apt=packages, files=files))
    yield made
    if engine.image(made.name):
        engine.remove_image(made.name, force=True)


def test_everything_locked_is_had_and_nothing_stays(builds: LockedBuilds, files, tmp_path: Path, inside, builder: str):
    weights, source, data = files
    made = render(
        target(
            tmp_path,
            apt=["tree"],
            files=[
                place(weights, "/opt/model/w.bin"),
                place(source, "/opt/src", unpack=True, sha256=source.sha256),
                place(data, "/opt/data", unpack=True),
            ],
            blocks=["apt", "files"],
        )
    )
    events, gateway = builds(made, builder)
    assert isinstance(events[-1], Built), events[-20:]
    assert not gateway.hosts and not gateway.missing and not gateway.refused

    look = (
        "tree --version | cut -c 1-4; sha256sum < /opt/model/w.bin; stat -c '%a %u' /opt/src/src-1.0/main.c; "
        "find /opt -type f | sort"
    )
    seen = inside(builds.name, look)
    assert seen.startswith(f"tree\n{weights.sha256}  -\n644 0\n")
    assert seen.split()[-3:] == ["/opt/data/values/a.csv", "/opt/model/w.bin", "/opt/src/src-1.0/main.c"]

    found: dict[str, str] = {}
    for layer in builds.layers():
        for member in (m for m in layer if m.isfile()):
            content = layer.extractfile(member).read()
            assert b"reprokit.invalid" not in content, member.name
            found[hashlib.sha256(content).hexdigest()] = member.name
    of_the_store = {file.sha256 for file in (*builds.served.of("apt"), *files)}
    assert {found[sha256] for sha256 in of_the_store & set(found)} == {"opt/model/w.bin"}

    # Another gateway, on another port and with another password: nothing is done again.
    again, gateway = builds(made, builder)
    steps = [event for event in again if isinstance(event, BuildStep) and event.text.startswith(("RUN", "COPY"))]
    assert steps and sum(isinstance(event, Cached) for event in again) >= len(steps)
    assert gateway.requests == 0 and again[-1] == events[-1]


def test_what_is_not_locked_is_refused_by_name(builds: LockedBuilds):
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


def test_other_bytes_than_the_recipe_names_stop_the_build(builds: LockedBuilds, files, tmp_path: Path):
    made = render(target(tmp_path, files=[place(files[0], "/opt/w.bin", sha256="0" * 64)], blocks=["files"]))
    events, _ = builds(made)
    said = [event.line for event in events if hasattr(event, "line")]
    assert isinstance(events[-1], Failed) and events[-1].block == "files"
    wanted = f"reprokit: block files: expected sha256 of weights.bin {'0' * 64}, found {files[0].sha256}"
    assert any(wanted in line for line in said)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[str]:
    """The address of a server that has one file, `weights.bin`."""
    (tmp_path / "served").mkdir()
    (tmp_path / "served/weights.bin").write_text("of the authors' server\n")
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path / "served"))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_without_a_lock_the_files_addresses_are_tried_in_order(
    builds: LockedBuilds, served: str, tmp_path: Path, inside
):
    builds.served = ServedSet(apt=builds.served.of("apt"))
    urls = [f"{served}/gone/weights.bin", f"{served}/weights.bin"]
    made = render(
        target(tmp_path, files=[{"name": "weights.bin", "urls": urls, "path": "/opt/w.bin"}], blocks=["files"])
    )
    events, gateway = builds(made, policy=pass_all)
    assert isinstance(events[-1], Built), events[-10:]
    assert inside(builds.name, "cat /opt/w.bin") == "of the authors' server\n"
    assert gateway.hosts == {"127.0.0.1": 2}
