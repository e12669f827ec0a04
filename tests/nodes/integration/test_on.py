"""`run --on` and `smoke --on`, with real engines, ssh and a terminal."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.builds import root_file_system
from tests.support.cluster import Cluster
from tests.support.machine import Machine
from tests.support.names import unique
from tests.support.processes import naming, send_when_asleep
from tests.support.terminals import typed
from tests.support.verbs import run_verb
from tests.support.waiting import wait_for

pytestmark = pytest.mark.engine
RECIPE = """\
name: {name}
paper: {{title: T, venue: V, year: 2024, licence: none}}
smoke:
  - {{command: echo fine, expect: fine}}
  - {{command: nvidia-smi, gpu: true}}
variants:
  cpu:
    base: "debian:12"
    ports: [18080]
    requires: {{gpu: optional, driver: "450.80.02"}}
    mounts: [{{source: data/in, target: /in}}]
"""
TOOLS = ("bash", "sh", "sleep", "cat", "ls", "env", "tail", "id", "grep", "kill", "pwd", "touch", "true")
Call = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def name(nodes: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A recipe here whose image is only on node1."""
    name = unique("on")
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / f"{name}.yaml").write_text(RECIPE.format(name=name))
    (tmp_path / "workspaces" / name).mkdir(parents=True)
    (tmp_path / "workspaces" / name / "code.py").write_text("mine\n")
    monkeypatch.chdir(tmp_path)
    changes = ["ENV PATH=/bin", f"LABEL reprokit.recipe={name} reprokit.variant=cpu reprokit.min-driver=450.80.02"]
    tools = io.BytesIO(root_file_system(TOOLS))
    nodes["node1"].engine().import_image(tools, f"reprokit/{name}", "cpu", changes)
    return name


def command(*args: str) -> list[str]:
    return [sys.executable, "-m", "reprokit", *args]


@pytest.fixture
def call() -> Call:
    return run_verb


def on(machine: Machine, name: str, *words: str) -> list[str]:
    return ["run", name, "--on", machine.login, *words]


def test_a_command_runs_there(nodes: Cluster, name: str, call: Call, tmp_path: Path):
    node = nodes["node1"]
    script = "cat; cat code.py; echo new > /in/made; echo wrong >&2; exit 7"
    done = call(*on(node, name, "--network", "none", "--", "sh", "-c", script), input="typed\n")
    assert (done.returncode, done.stdout) == (7, "typed\nmine\n"), done.stderr
    (found,) = (node.home / ".cache/reprokit/workspaces").glob(f"{name}-*")
    workspace = f"/root/.cache/reprokit/workspaces/{found.name}"
    assert f"copying the workspace {tmp_path}/workspaces/{name} (5 B) to {node.login}" in done.stderr
    assert f"the workspace on the node is {node.login}:{workspace}; changes there" in done.stderr
    assert "wrong\n" in done.stderr
    home = node.home / workspace.removeprefix("/root/")
    assert (home / "data" / "in" / "made").read_text() == "new\n"
    assert sorted(p.name for p in home.iterdir()) == ["code.py", "data"]
    assert [p.name for p in home.parent.iterdir() if name in p.name] == [found.name]  # and no temporary folder

    # The node's copy is not overwritten, and no message mentions it.
    (home / "code.py").write_text("theirs\n")
    again = call(*on(node, name, "--", "cat", "code.py"))
    image = node.engine().image(f"reprokit/{name}:cpu")["Id"]
    assert (again.returncode, again.stdout) == (0, "theirs\n") and f"`reprokit trust add {image}`" in again.stderr
    assert call("trust", "add", image).returncode == 0
    again = call(*on(node, name, "--", "cat", "code.py"))
    assert (again.returncode, again.stdout, again.stderr) == (0, "theirs\n", "")
    (log,) = (tmp_path / "reprokit" / "state" / "containers").glob("*.log")
    assert re.match(f"reprokit-{name}-cpu-[0-9a-f]{{8}}@", log.name) and "theirs" in log.read_text()


@pytest.fixture
def ana(nodes: Cluster) -> Iterator[str]:
    """A login on node4 of an ordinary user who may use its engine."""
    node = nodes["node4"]
    home = node.folder / "ana"
    home.mkdir()
    os.chown(home, 1234, 2345)
    closed = {folder: folder.stat().st_mode for folder in (node.folder, nodes.folder)}
    for folder in closed:
        folder.chmod(0o755)
    files = {"passwd": f"ana:x:1234:2345::{home}:/bin/sh\n", "group": "papers:x:2345:\ndocker-test:x:3456:ana\n"}
    for file, line in files.items():
        (node.folder / file).write_text((Path("/etc") / file).read_text() + line)
        node.inside("mount", "--bind", str(node.folder / file), f"/etc/{file}")
    node.inside("chgrp", "3456", "/run/docker.sock")
    node.inside("chmod", "660", "/run/docker.sock")
    yield f"ana@{node.address}"
    for file in files:
        node.inside("umount", f"/etc/{file}")
    # Otherwise other users could log in to all nodes.
    for folder, mode in closed.items():
        folder.chmod(mode)


def test_the_command_runs_as_the_nodes_user(nodes: Cluster, name: str, call: Call, ana: str):
    engine, home = nodes["node4"].engine(), nodes["node4"].folder / "ana"
    labels = f"LABEL reprokit.recipe={name} reprokit.variant=cpu"
    engine.import_image(io.BytesIO(root_file_system(TOOLS)), f"reprokit/{name}", "cpu", ["ENV PATH=/bin", labels])
    done = call("run", name, "--on", ana, "--network", "none", "--", "sh", "-c", "id; echo made > made")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("uid=1234(ana) gid=2345(ana) groups=2345(ana),3456"), done.stdout
    (made,) = (home / ".cache" / "reprokit" / "workspaces").glob(f"{name}-*/made")
    assert (made.stat().st_uid, made.stat().st_gid) == (1234, 2345)
    (container,) = engine.containers([f"reprokit.recipe={name}"])
    assert container["Labels"]["reprokit.owner"] == "1234"
    # The other verbs find the container by the owner on the node.
    (row,) = json.loads(call("ps", "--on", ana, "--json").stdout)
    assert (row["own"], row["state"], row["recipe"]) == (True, "running", name)
    done = call("exec", name, "--on", ana, "--", "cat", "made")
    assert (done.returncode, done.stdout) == (0, "made\n"), done.stderr
    assert "$ cat made\nmade\n[exit 0" in call("logs", name, "--on", ana).stdout
    assert call("rm", name, "--on", ana).returncode == 2, "it runs"
    assert call("stop", name, "--on", ana).stdout == f"stopped {row['name']}\n"
    assert call("rm", name, "--on", ana).stdout == f"removed {row['name']}\n"
    assert json.loads(call("ps", "--on", ana, "--json").stdout) == []


def test_a_missing_image_is_reported_with_the_command_that_sends_it(nodes: Cluster, name: str, call: Call):
    done = call(*on(nodes["node2"], name, "--", "true"))
    assert done.returncode == 2
    assert f"hint: reprokit send {name}:cpu {nodes['node2'].login}" in done.stderr


def test_a_node_that_is_down(nodes: Cluster, name: str, call: Call):
    done = call("run", name, "--on", nodes.down, "--", "true")
    assert done.returncode == 4 and nodes.down in done.stderr and len(done.stderr.splitlines()) == 2


def test_a_node_without_an_engine(nodes: Cluster, name: str, call: Call):
    done = call(*on(nodes["gate"], name, "--", "true"))
    assert done.returncode == 3 and "no Docker Engine answers there" in done.stderr, done.stderr
    assert nodes["gate"].login in done.stderr and len(done.stderr.splitlines()) == 2


def test_a_node_behind_another(nodes: Cluster, name: str, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    hidden = nodes["hidden"]
    config = tmp_path / "config.yaml"
    config.write_text(f"nodes:\n  far: {{address: {hidden.login}, jump: {nodes['gate'].login}}}\n")
    monkeypatch.setenv("REPROKIT_CONFIG", str(config))
    done = call("run", name, "--on", "far", "--", "true")
    assert done.returncode == 2 and f"reprokit send {name}:cpu far" in done.stderr


def test_mounts_are_folders_of_the_node(nodes: Cluster, name: str, call: Call):
    node = nodes["node1"]
    (node.home / "data set").mkdir(exist_ok=True)
    (node.home / "data set" / "x").write_text("there\n")
    done = call(*on(node, name, "--network", "none", "-v", "/root/data set:/d:ro", "--", "cat", "/d/x"))
    assert (done.returncode, done.stdout) == (0, "there\n"), done.stderr
    missing = call(*on(node, name, "-v", "/root/none:/e", "--", "true"))
    assert missing.returncode == 2 and f"{node.login} has no /root/none" in missing.stderr
    relative = call(*on(node, name, "-v", "data:/e", "--", "true"))
    assert relative.returncode == 2 and "need absolute paths" in relative.stderr


@contextlib.contextmanager
def started(words: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has printed its first line, `up`."""
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe) as running:
        try:
            assert running.stdout and running.stdout.readline() == b"up\n"
            yield running
        finally:
            running.kill()


def test_ports_are_the_nodes_own(nodes: Cluster, name: str, call: Call):
    node = nodes["node1"]
    enter = ["nsenter", "--net", f"--target={node.init}", "--"]
    listen = "import signal, socket; s = socket.create_server(('127.0.0.1', 18080)); print(flush=True); signal.pause()"
    with subprocess.Popen([*enter, sys.executable, "-c", listen], stdout=subprocess.PIPE) as taken:
        try:
            assert taken.stdout and taken.stdout.readline()
            done = call(*on(node, name, "--", "true"))
        finally:
            taken.kill()
    assert done.returncode == 0, done.stderr
    assert "port 18080 of the recipe is published as 18081: 18080 is taken" in done.stderr
    assert f"port 18081 is published on {node.login}; forward it with ssh -L 18081:127.0.0.1:18081" in done.stderr


def test_ctrl_c_ends_the_command_there(nodes: Cluster, name: str):
    node, mark = nodes["node1"], f"9{secrets.randbelow(10**6):06}.5"
    words = command(*on(node, name, "--network", "none", "--", "sh", "-c", f"echo up; sleep {mark}"))
    with started(words) as running:
        assert naming(mark)
        send_when_asleep(running.pid)
        _, errors = running.communicate(timeout=200)
    assert running.returncode == 130 and b"interrupted" in errors, errors
    wait_for(lambda: not naming(mark))


def test_a_terminal_is_the_commands(nodes: Cluster, name: str):
    words = command(*on(nodes["node1"], name, "-t", "--network", "none", "--", "sh"))
    code, seen = typed(words, b"test -t 0 && echo a-$((6 * 7))-terminal; exit 5\n")
    assert code == 5 and b"a-42-terminal" in seen, seen


def test_the_network_of_the_node_fails(nodes: Cluster, name: str):
    node = nodes["node1"]
    words = command(*on(node, name, "--network", "none", "--", "sh", "-c", "echo up; sleep 9999"))
    with started(words) as running:
        node.cut()
        try:
            _, errors = running.communicate(timeout=200)
        finally:
            node.mend()
    assert running.returncode == 4 and b"the connection broke" in errors and node.login.encode() in errors, errors


def test_smoke_runs_on_a_node(nodes: Cluster, name: str, call: Call):
    node = nodes["node1"]
    done = call("smoke", name, "--on", node.login, "--json")
    assert done.returncode == 0, done.stderr
    (result,) = json.loads(done.stdout)["results"]
    assert [(s["name"], s["status"]) for s in result["steps"]][-2:] == [("echo fine", "pass"), ("nvidia-smi", "skip")]
    assert not any("smoke" in c["Names"][0] for c in node.engine().containers([f"reprokit.recipe={name}"]))
    rest = call("smoke", "--all", "--on", node.login, "--json")
    assert rest.returncode == 0, rest.stderr
    others = {r["name"]: (r["status"], r["reason"]) for r in json.loads(rest.stdout)["results"]}
    assert others.pop(f"{name}:cpu")[0] == "pass"
    assert others and all(status == "skip" for status, _ in others.values())
    assert others["fused-attention:cpu"][1] == f"its image is missing on {node.login}"
    absent = call("smoke", name, "--on", nodes["node2"].login)
    assert absent.returncode == 1 and "has no image" in absent.stdout
