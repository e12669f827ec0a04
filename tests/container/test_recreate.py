"""A container made anew for a port, a mount or GPUs keeps its files; one whose image was rebuilt is replaced."""

from __future__ import annotations

import contextlib
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


def _snapshots(engine, name):
    images = engine.images([f"reprokit.container={name}"])
    return [name for image in images for name in image.names]


def test_ports_and_mounts_are_added_and_work_is_kept(engine, made, place, sh, reported: list[str]):
    name = ensure_running(engine, made)
    sh(name, "echo work > /made/work; rm /made/built")
    (place / "extra").mkdir()
    port = Port("127.0.0.1", free_port(), 80)
    ensure_running(engine, made, RunOptions(ports=(port,)))
    stop(engine, name)
    ensure_running(engine, made, RunOptions(mounts=(BindMount(str(place / "extra"), "/extra"),)))
    why = [line.split(" for ", 1)[1] for line in reported if " for " in line]
    assert why == [f"port {port.host}; its files stay", "mount /extra; its files stay"]
    script = "cat /made/work; touch /extra/f; printenv PATH; test ! -e /made/built"
    assert sh(name, script) == "work\n/opt/first:/usr/local/bin:/usr/bin:/bin\n"
    described = engine.api.inspect_container(name)
    assert described["NetworkSettings"]["Ports"]["80/tcp"][0]["HostPort"] == str(port.host)
    assert (place / "extra" / "f").exists()
    assert described["Config"]["Labels"]["reprokit.image"] == engine.image(f"reprokit/{made.label}").id
    assert _snapshots(engine, name) == [f"reprokit-snapshot:{name}"]
    remove(engine, name)
    assert engine.images([f"reprokit.container={name}"]) == []
    assert engine.image(f"reprokit/{made.label}") is not None


def test_where_it_fails_the_old_one_is_back(engine, made, base, sh, rebuild, reported: list[str]):
    name = ensure_running(engine, made)
    sh(name, "echo work > /made/work")
    before = engine.api.inspect_container(name)
    reported.clear()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = Port("127.0.0.1", taken.getsockname()[1], 80)
        with pytest.raises(UsageError, match=f"^127.0.0.1:{port.host} is in use[^\n]*$"):
            ensure_running(engine, made, RunOptions(ports=(port,)))
    # A taken port is reported before anything is stopped.
    assert (engine.api.inspect_container(name)["State"]["StartedAt"], reported) == (before["State"]["StartedAt"], [])
    for _ in ("the same image", "a rebuilt one"):
        with pytest.raises(EngineError, match="GPU"):
            ensure_running(engine, made, RunOptions(gpus="all"))
        assert engine.container(name).id == before["Id"]
        assert sh(name, "cat /made/work") == "work\n"
        assert _snapshots(engine, name) == []
        assert len(engine.containers([f"reprokit.recipe={made.recipe.name}"])) == 1
        rebuild(f"FROM {base}\nENV BUILD=2\n")


def test_where_it_was_broken_off_the_next_command_resumes(engine, made, sh):
    name = ensure_running(engine, made)
    sh(name, "echo work > /made/work")
    engine.stop(name)
    engine.rename(name, f"{name}.previous")
    ensure_running(engine, made)
    assert sh(name, "cat /made/work") == "work\n"


@contextlib.contextmanager
def _busy(engine, name, sh):
    """A command runs in the container meanwhile."""
    started = threading.Event()
    command = Command(["sh", "-c", "echo up; until [ -e /made/enough ]; do sleep 0.1; done"])
    running = threading.Thread(target=lambda: attach(engine, name, command, lambda *_: started.set()))
    running.start()
    assert started.wait(120)
    try:
        yield
    finally:
        sh(name, "touch /made/enough")
        running.join()


def test_running_commands_are_not_killed_for_it(engine, made, base, sh, call, rebuild):
    name = ensure_running(engine, made)
    with _busy(engine, name, sh):
        with pytest.raises(UsageError, match="1 of its commands still run"):
            ensure_running(engine, made, RunOptions(shm=1 << 27))
        rebuild(f"FROM {base}\nENV BUILD=2\n")
        for verb, *words in (("run", "--", "true"), ("exec", "--", "true"), ("shell",)):
            refused = call(verb, made.label, *words)
            assert refused.returncode == 2 and "1 of its commands still run" in refused.stderr, refused
            assert "--stale" in refused.stderr
            used = call(verb, "--stale", made.label, *words)
            assert used.returncode == 0 and f"{name} is from an older build" in used.stderr, used


def test_a_rebuilt_image_replaces_a_container_and_keeps_one_with_changed_files(
    engine, made, base, sh, call, rebuild, reported: list[str]
):
    port = Port("127.0.0.1", free_port(), 80)
    name = ensure_running(engine, made, RunOptions(ports=(port,)))
    sh(name, "touch /tmp/temporary; rm /tmp/temporary; cd; pwd")
    reported.clear()
    rebuild(f"FROM {base}\nENV BUILD=2\n")
    ensure_running(engine, made)
    assert (sh(name, "echo $BUILD"), reported) == ("2\n", [f"recreating {name}: its image was rebuilt"])
    assert len(engine.containers([f"reprokit.recipe={made.recipe.name}"])) == 1
    assert engine.api.inspect_container(name)["NetworkSettings"]["Ports"]["80/tcp"][0]["HostPort"] == str(port.host)
    sh(name, "touch /made/first")
    ensure_running(engine, made, RunOptions(shm=1 << 27))  # the file is in a snapshot now
    rebuild(f"FROM {base}\nENV BUILD=3\n")
    done = call("exec", name, "--", "sh", "-c", "echo $BUILD; ls /made")
    assert (done.returncode, done.stdout) == (0, "3\n"), done.stderr
    kept = f"{name}.old-1"
    assert f"`reprokit shell --name {kept} {made.label}` opens it" in done.stderr
    assert _snapshots(engine, name) == [f"reprokit-snapshot:{kept}"]
    sh(name, "touch /made/second")
    rebuild(f"FROM {base}\nENV BUILD=4\n")
    done = call("run", made.label, "--", "sh", "-c", "echo $BUILD; ls /made")
    assert done.stdout == "4\n" and "such as /made/second" in done.stderr
    call("stop", name)  # the kept one has its port
    done = call("run", "--name", kept, made.label, "--", "sh", "-c", "echo $BUILD; ls /made")
    assert (done.returncode, done.stdout) == (0, "2\nfirst\n"), done.stderr
    assert call("rm", "--force", kept, f"{name}.old-2").returncode == 0
    assert len(engine.containers([f"reprokit.recipe={made.recipe.name}"])) == 1
    assert engine.image(f"reprokit-snapshot:{kept}") is None


def test_a_deep_chain_becomes_one_layer(engine, made, monkeypatch, sh):
    monkeypatch.setattr(recreate, "MOST_LAYERS", 6)
    name = ensure_running(engine, made)
    depth = []
    for step in range(1, 5):
        sh(name, f"echo {step} >> /made/owned")
        ensure_running(engine, made, RunOptions(shm=(1 << 27) + step * (1 << 20)))
        depth.append(len(engine.image(engine.container(name).image).layers))
    assert depth == [5, 6, 1, 2]
    script = "tr -d '\\n' < /made/owned; stat -c ' %u %g' /made/owned; printenv PATH LD_LIBRARY_PATH; command -v python"
    expected = "1234 12 34\n/opt/first:/usr/local/bin:/usr/bin:/bin\n/opt/lib\n/opt/first/python\n"
    assert sh(name, script) == expected
    remove(engine, name)
    assert engine.image(f"reprokit-snapshot:{name}") is None
    assert engine.image(f"reprokit-snapshot:{name}.next") is None
