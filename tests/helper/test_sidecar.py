"""The closed network: a loopback that leads to this process, and a sidecar that goes with it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from reprokit.engine import Engine
from reprokit.errors import EngineError
from reprokit.helper import sidecar
from reprokit.helper.sidecar import ADDRESS, ROLE, Network, closed_network
from tests.support.names import unique
from tests.support.paths import ROOT
from tests.support.privileges import OTHER_USER, need_root
from tests.support.users import as_user
from tests.support.waiting import wait_for

pytestmark = pytest.mark.engine

ASK = "exec 3<>/dev/tcp/127.0.0.1/3128 && echo asked >&3 && cat <&3"


@pytest.fixture
def network(engine: Engine) -> Iterator[Network]:
    with closed_network(engine) as made:
        yield made


def answer(network: Network, words: bytes) -> None:
    """Answer all who connect from here on."""

    def serve() -> None:
        while True:
            try:
                client = network.listening.accept()[0]
            except OSError:
                return
            with client:
                if client.recv(100):  # the helper itself connects once, to see whether it can
                    client.sendall(words)

    network.listening.settimeout(None)
    threading.Thread(target=serve, daemon=True).start()


def ran(engine: Engine, image: str, network: str, script: str) -> str:
    config = {"Image": image, "Cmd": ["bash", "-c", script], "HostConfig": {"NetworkMode": network}}
    name = engine.create_container(unique("sidecar"), config)
    try:
        engine.start(name)
        return b"".join(engine.logs(name, follow=True)).decode()
    finally:
        engine.remove(name, force=True)


def container_of(network: Network) -> str:
    return network.name.removeprefix("container:")


def test_it_leads_to_this_process_and_ends_with_the_context(engine: Engine, bookworm):
    with closed_network(engine) as network, closed_network(engine) as beside:
        answer(network, b"this one\n")
        answer(beside, b"the other\n")
        assert network.address == ADDRESS
        assert ran(engine, bookworm.base.image_id, network.name, ASK) == "this one\n"
        assert ran(engine, bookworm.base.image_id, beside.name, ASK) == "the other\n"
        folder = Path(engine.container(container_of(network))["Mounts"][0]["Source"])
        assert folder.exists() and folder.parent.stat().st_mode & 0o777 == 0o700
    assert not folder.parent.exists()
    wait_for(lambda: engine.container(container_of(network)) is None)
    with pytest.raises(EngineError):
        ran(engine, bookworm.base.image_id, network.name, "true")


def test_the_sidecar_has_no_rights_and_an_image_of_the_helper_alone(engine: Engine, network: Network):
    container = engine.container(container_of(network))
    host = container["HostConfig"]
    assert container["Config"]["User"] == "65534:65534"
    assert host["NetworkMode"] == "none" and host["ReadonlyRootfs"] and host["CapDrop"] == ["ALL"]
    assert "no-new-privileges" in host["SecurityOpt"]
    assert [mount["RW"] for mount in container["Mounts"]] == [False]
    image = engine.image(container["Image"])
    assert container["Config"]["Image"] == container["Image"]  # by id: no name can be put in its place
    assert len(image["RootFS"]["Layers"]) == 1 and image["Size"] < 10_000
    with closed_network(engine) as again:
        assert engine.container(container_of(again))["Image"] == container["Image"]


def test_a_sidecar_that_does_not_listen_is_an_error(engine: Engine, monkeypatch, tmp_path: Path):
    monkeypatch.setattr(sidecar, "ADDRESS", ("127.0.0.1", 0))
    with pytest.raises(EngineError, match=r"no closed network: .*not a port"), closed_network(engine):
        pass
    monkeypatch.undo()
    (tmp_path / "no-program").write_bytes(b"no program")
    monkeypatch.setattr(sidecar, "program", lambda architecture: tmp_path / "no-program")
    with pytest.raises(EngineError, match="no closed network") as error, closed_network(engine):
        pass
    assert error.value.exit_code == 3


def test_a_long_path_of_the_socket_does_not_matter(engine: Engine, monkeypatch, tmp_path: Path):
    long = tmp_path / ("x" * 120)
    long.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(long))
    with closed_network(engine) as network:
        assert network.listening.accept()[0].recv(1) == b""  # of the helper


def test_a_killed_process_leaves_no_sidecar(engine: Engine):
    script = (
        "import json, signal; from reprokit.engine import Engine; from reprokit.helper.sidecar import closed_network\n"
        "with closed_network(Engine.connect()) as network: print(json.dumps(network.name), flush=True); signal.pause()"
    )
    with subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        container = json.loads(process.stdout.readline()).removeprefix("container:")
        assert engine.container(container)["State"]["Running"]
        os.kill(process.pid, signal.SIGKILL)
    wait_for(lambda: engine.container(container) is None)


def test_one_that_was_never_started_is_removed_by_the_next(engine: Engine, network: Network, monkeypatch):
    config = {
        "Image": engine.container(container_of(network))["Image"],
        "Cmd": ["/helper"],
        "Labels": {ROLE: "gateway"},
    }
    left = engine.create_container(unique("sidecar"), config)
    with closed_network(engine):
        assert engine.container(left) is not None  # it may be somebody's who is about to start it
    listed = engine.containers
    old = lambda labels: [{**found, "Created": 0} for found in listed(labels) if found["Id"] == left]  # noqa: E731
    monkeypatch.setattr(engine, "containers", old)
    with closed_network(engine):
        assert engine.container(left) is None
        assert engine.container(container_of(network)) is not None


def test_the_gateways_socket_is_out_of_other_users_reach(engine: Engine, network: Network):
    need_root(OTHER_USER)
    path = Path(engine.container(container_of(network))["Mounts"][0]["Source"]) / "socket"
    connect = f"import socket; socket.socket(socket.AF_UNIX).connect({str(path)!r})"
    subprocess.run([sys.executable, "-c", connect], check=True)

    def refused() -> bool:
        try:
            socket.socket(socket.AF_UNIX).connect(str(path))
        except PermissionError:
            return True
        return False

    assert as_user(refused, reads_all=False)
