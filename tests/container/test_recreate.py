"""A container made anew for a port, a mount or GPUs keeps its files."""

from __future__ import annotations

import socket
import threading

import pytest

from reprokit.container import recreate
from reprokit.container.attach import Command, attach
from reprokit.container.lifecycle import ensure_running, remove, stop
from reprokit.container.settings import Port, RunOptions
from reprokit.errors import EngineError, UsageError
from reprokit.host.mounts import BindMount
from tests.support.ports import free_port

pytestmark = pytest.mark.engine


def _snapshots(engine, name):
    return [
        tag
        for image in engine.images([f"reprokit.container={name}"])
        for tag in image.get("RepoTags") or []
    ]  # fmt: skip


def test_ports_and_mounts_are_added_and_work_is_kept(engine, made, place, sh):
    name = ensure_running(engine, made)
    sh(name, "echo work > /made/work; rm /made/built")
    (place / "extra").mkdir()
    port = Port("127.0.0.1", free_port(), 80)
    said: list[str] = []
    ensure_running(engine, made, RunOptions(ports=(port,)), said.append)
    ensure_running(engine, made, RunOptions(mounts=(BindMount(str(place / "extra"), "/extra"),)), said.append)
    assert [line.split(" for ", 1)[1] for line in said] == [
        f"port {port.host}; its files stay",
        "mount /extra; its files stay",
    ]
    assert sh(name, "cat /made/work; ls /made/built 2>&1 | wc -l; touch /extra/f; printenv PATH").splitlines() == [
        "work",
        "1",
        "/opt/first:/usr/local/bin:/usr/bin:/bin",
    ]
    assert sh(name, "test ! -e /made/built") == ""
    assert engine.container(name)["NetworkSettings"]["Ports"]["80/tcp"][0]["HostPort"] == str(port.host)
    assert (place / "extra" / "f").exists()
    labels = engine.container(name)["Config"]["Labels"]
    assert labels["reprokit.image"] == engine.image(f"reprokit/{made.label}")["Id"]
    assert _snapshots(engine, name) == [f"reprokit-snapshot:{name}"]
    remove(engine, name)
    assert engine.images([f"reprokit.container={name}"]) == []
    assert engine.image(f"reprokit/{made.label}") is not None


def test_a_stopped_container_too(engine, made, sh):
    name = ensure_running(engine, made)
    sh(name, "echo work > /made/work")
    stop(engine, name)
    ensure_running(engine, made, RunOptions(shm=1 << 27))
    assert sh(name, "cat /made/work") == "work\n"


def test_where_it_fails_the_old_one_is_back(engine, made, sh):
    name = ensure_running(engine, made)
    sh(name, "echo work > /made/work")
    before = engine.container(name)["Id"]
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(UsageError):
            ensure_running(engine, made, RunOptions(ports=(Port("127.0.0.1", taken.getsockname()[1], 80),)))
    with pytest.raises(EngineError, match="GPU"):
        ensure_running(engine, made, RunOptions(gpus="all"))
    assert engine.container(name)["Id"] == before
    assert sh(name, "cat /made/work") == "work\n"
    assert _snapshots(engine, name) == []
    assert len(engine.containers([f"reprokit.recipe={made.recipe.name}"])) == 1


def test_where_it_was_broken_off_the_next_command_finds_it(engine, made, sh):
    name = ensure_running(engine, made)
    sh(name, "echo work > /made/work")
    engine.stop(name)
    engine.rename(name, f"{name}.previous")
    ensure_running(engine, made)
    assert sh(name, "cat /made/work") == "work\n"


LASTING = "echo up; until [ -e /made/enough ]; do sleep 0.1; done"


def test_running_commands_are_not_killed_for_it(engine, made, sh):
    name = ensure_running(engine, made)
    started = threading.Event()
    running = threading.Thread(
        target=lambda: attach(engine, name, Command(["sh", "-c", LASTING]), lambda *_: started.set())
    )
    running.start()
    assert started.wait(120)
    try:
        with pytest.raises(UsageError, match="1 of its commands still run"):
            ensure_running(engine, made, RunOptions(shm=1 << 27))
    finally:
        sh(name, "touch /made/enough")
        running.join()


def test_a_deep_chain_becomes_one_layer(engine, made, monkeypatch, sh):
    monkeypatch.setattr(recreate, "MOST_LAYERS", 6)
    name = ensure_running(engine, made)
    depth = []
    for step in range(1, 5):
        sh(name, f"echo {step} >> /made/owned")
        ensure_running(engine, made, RunOptions(shm=(1 << 27) + step * (1 << 20)))
        depth.append(len(engine.image(engine.container(name)["Image"])["RootFS"]["Layers"]))
    assert depth == [5, 6, 1, 2]
    script = "tr -d '\\n' < /made/owned; stat -c ' %u %g' /made/owned; printenv PATH LD_LIBRARY_PATH; command -v python"
    expected = "1234 12 34\n/opt/first:/usr/local/bin:/usr/bin:/bin\n/opt/lib\n/opt/first/python\n"
    assert sh(name, script) == expected
    remove(engine, name)
    assert engine.image(f"reprokit-snapshot:{name}") is None
    assert engine.image(f"reprokit-snapshot:{name}.next") is None
