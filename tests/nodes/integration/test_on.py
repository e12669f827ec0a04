"""Verbs with `--on` a node, with real engines, ssh and a terminal."""

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

from reprokit.doctor.checks import CHECKS
from reprokit.doctor.examine import examine
from reprokit.doctor.examined import examined_node
from reprokit.nodes.config import find
from reprokit.results.lines import read
from tests.support.builds import root_file_system
from tests.support.cluster import Cluster
from tests.support.images import Images, noise
from tests.support.machine import Machine
from tests.support.processes import naming, send_when_asleep
from tests.support.registry import command
from tests.support.sender import MB
from tests.support.terminals import typed
from tests.support.verbs import run_verb as call
from tests.support.waiting import wait_for

TOP = """\
smoke:
  - {command: echo fine, expect: fine}
  - {command: nvidia-smi, gpu: true}
benchmarks:
  spmm:
    command: 'echo "took 5 ms for $TOKEN" | grep took'
    parse: {values: [{pattern: 'took (?P<value>\\S+) ms for token', metric: spmm, unit: ms}]}
"""
VARIANT = """\
  cpu:
    base: "debian:12"
    ports: [18080]
    requires: {gpu: optional, driver: "450.80.02"}
    mounts: [{source: data/in, target: /in}]
"""
TOOLS = ("bash", "sh", "sleep", "cat", "ls", "env", "tail", "id", "kill", "pwd", "touch", "true", "head", "rm")


def put(node: Machine, name: str, labels: str = "reprokit.min-driver=450.80.02", tools: tuple[str, ...] = ("grep",)):
    """The recipe's image on a node."""
    changes = ["ENV PATH=/bin", f"LABEL reprokit.recipe={name} reprokit.variant=cpu {labels}"]
    node.engine().import_image(io.BytesIO(root_file_system((*TOOLS, *tools))), f"reprokit/{name}", "cpu", changes)


@pytest.fixture
def name(nodes: Cluster, recipe, tmp_path: Path) -> str:
    """A recipe here whose image is only on node1, its workspace, and the file `env` with a variable."""
    name = recipe(VARIANT, TOP)
    (tmp_path / "workspaces" / name).mkdir(parents=True)
    (tmp_path / "workspaces" / name / "code.py").write_text("mine\n")
    (tmp_path / "env").write_text("TOKEN=token\n")
    put(nodes["node1"], name)
    return name


def on(machine: Machine, name: str, *words: str) -> list[str]:
    return ["run", name, "--on", machine.login, *words]


def test_a_command_runs_there(nodes: Cluster, name: str, tmp_path: Path):
    node = nodes["node1"]
    script = "cat; cat code.py; echo new > /in/made; echo wrong >&2; exit 7"
    done = call(*on(node, name, "--network", "none", "--", "sh", "-c", script), input="typed\n")
    assert (done.returncode, done.stdout) == (7, "typed\nmine\n"), done.stderr
    (home,) = (node.home / ".cache/reprokit/workspaces").glob(f"{name}-*")
    assert f"copying the workspace {tmp_path}/workspaces/{name} (5 B) to {node.login}" in done.stderr
    place = f"{node.login}:/root/.cache/reprokit/workspaces/{home.name}"
    assert f"the workspace on the node is {place}; changes there" in done.stderr
    assert "wrong\n" in done.stderr
    assert (home / "data" / "in" / "made").read_text() == "new\n"
    assert sorted(p.name for p in home.iterdir()) == ["code.py", "data"]
    assert [p.name for p in home.parent.iterdir() if name in p.name] == [home.name]  # and no temporary folder

    # The node's copy is not overwritten, and no message mentions it.
    (home / "code.py").write_text("theirs\n")
    again = call(*on(node, name, "--", "cat", "code.py"))
    image = node.engine().image(f"reprokit/{name}:cpu").id
    assert (again.returncode, again.stdout) == (0, "theirs\n") and f"`reprokit images trust {image}`" in again.stderr
    assert call("images", "trust", image).returncode == 0
    again = call(*on(node, name, "--", "cat", "code.py"))
    assert (again.returncode, again.stdout, again.stderr) == (0, "theirs\n", "")
    (log,) = (tmp_path / "reprokit" / "state" / "containers").glob("*.log")
    assert re.match(f"reprokit-{name}-cpu-[0-9a-f]{{8}}@", log.name) and "theirs" in log.read_text()


@pytest.fixture
def ana(nodes: Cluster) -> Iterator[str]:
    """A login on node3 of an ordinary user who may use its engine."""
    node = nodes["node3"]
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


def test_the_command_runs_as_the_nodes_user(nodes: Cluster, name: str, ana: str):
    engine, home = nodes["node3"].engine(), nodes["node3"].folder / "ana"
    put(nodes["node3"], name)
    done = call("run", name, "--on", ana, "--network", "none", "--", "sh", "-c", "id; echo made > made")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("uid=1234(ana) gid=2345(ana) groups=2345(ana),3456"), done.stdout
    (made,) = (home / ".cache" / "reprokit" / "workspaces").glob(f"{name}-*/made")
    assert (made.stat().st_uid, made.stat().st_gid) == (1234, 2345)
    (container,) = engine.containers([f"reprokit.recipe={name}"])
    assert container.labels["reprokit.owner"] == "1234"
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


def test_a_node_that_cannot_run_it_is_named_with_the_remedy(nodes: Cluster, name: str, tmp_path: Path, monkeypatch):
    config = tmp_path / "config.yaml"
    config.write_text(f"nodes:\n  far: {{address: {nodes['hidden'].login}, jump: {nodes['gate'].login}}}\n")
    monkeypatch.setenv("REPROKIT_CONFIG", str(config))
    for node, code, words in (
        (nodes["node2"].login, 2, f"hint: reprokit send {name}:cpu {nodes['node2'].login}"),
        ("far", 2, f"reprokit send {name}:cpu far"),
        (nodes.down, 4, nodes.down),
        (nodes["gate"].login, 3, "no Docker Engine answers there"),
    ):
        done = call("run", name, "--on", node, "--", "true")
        assert done.returncode == code and words in done.stderr and node in done.stderr, done.stderr
        assert code == 2 or len(done.stderr.splitlines()) == 2


def test_mounts_are_folders_of_the_node(nodes: Cluster, name: str):
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


def test_ports_are_the_nodes_own(nodes: Cluster, name: str):
    node = nodes["node1"]
    listen = (
        "import signal, socket; s = socket.create_server(('127.0.0.1', 18080)); print('up', flush=True); signal.pause()"
    )
    with started(["nsenter", "--net", f"--target={node.init}", "--", sys.executable, "-c", listen]):
        done = call(*on(node, name, "--", "true"))
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


@pytest.mark.parametrize(
    ("verb", "words"), [("run", ["-t", "--network", "none", "--", "sh"]), ("shell", ["--network", "none"])]
)
def test_a_terminal_is_the_commands(nodes: Cluster, name: str, verb: str, words: list[str]):
    words = command(verb, name, "--on", nodes["node1"].login, "--env-file", "env", *words)
    code, seen = typed(words, b"test -t 0 && echo a-$((6 * 7))-$TOKEN; exit 5\n")
    assert code == 5 and b"a-42-token" in seen, seen


def test_variables_of_a_file_here_reach_the_command_and_stay_nowhere(nodes: Cluster, name: str):
    node = nodes["node1"]
    done = call(*on(node, name, "--env-file", "env", "--network", "none", "--", "sh", "-c", "echo $TOKEN"))
    assert (done.returncode, done.stdout) == (0, "token\n"), done.stderr
    again = call("exec", name, "--on", node.login, "--", "sh", "-c", 'echo "${TOKEN:-none}"')
    assert (again.returncode, again.stdout) == (0, "none\n"), again.stderr
    (container,) = node.engine().containers([f"reprokit.recipe={name}"])
    assert "TOKEN" not in json.dumps(node.engine().api.inspect_container(container.id))


def test_smoke_runs_on_a_node(nodes: Cluster, name: str):
    node = nodes["node1"]
    done = call("smoke", "--all", "--on", node.login, "--json")
    assert done.returncode == 0, done.stderr
    results = {result["name"]: result for result in json.loads(done.stdout)["results"]}
    own = results.pop(f"{name}:cpu")
    assert own["status"] == "pass"
    assert [(s["name"], s["status"]) for s in own["steps"]][-2:] == [("echo fine", "pass"), ("nvidia-smi", "skip")]
    assert not any("smoke" in c.name for c in node.engine().containers([f"reprokit.recipe={name}"]))
    assert results and {result["status"] for result in results.values()} == {"skip"}
    assert results["fused-attention:cpu"]["reason"] == f"its image is missing on {node.login}"
    absent = call("smoke", name, "--on", nodes["node2"].login)
    assert absent.returncode == 1 and "has no image" in absent.stdout


def test_records_of_a_node_are_kept_here_and_name_it(nodes: Cluster, name: str, tmp_path: Path):
    node = nodes["node1"]
    bench = ("bench", name, "--on", node.login, "--env-file", "env", "--json")
    done = call(*bench)
    assert done.returncode == 0, done.stderr
    (record,) = json.loads(done.stdout)["records"]
    assert (record["samples"], record["node"], record["image_stale"]) == ([5.0], node.login, False)
    assert record["image_digest"] == node.engine().image(f"reprokit/{name}:cpu").id
    kept = (tmp_path / "results" / f"{name}.jsonl").read_text()
    assert [json.loads(line)["node"] for line in kept.splitlines()] == [record["node"]]
    (container,) = node.engine().containers([f"reprokit.recipe={name}"])
    assert container.state == "exited"

    put(node, name, "reprokit.dockerfile=other")
    refused = call(*bench)
    assert refused.returncode == 1 and f"the image of {name}:cpu is stale" in refused.stderr, refused.stderr
    forced = call(*bench, "--stale")
    assert forced.returncode == 0, forced.stderr
    assert json.loads(forced.stdout)["records"][0]["image_stale"] is True


@pytest.fixture
def swept(nodes: Cluster, recipe, tmp_path: Path, monkeypatch) -> Callable[[int], tuple[dict, str, list]]:
    """`swept(n)` runs a sweep of n jobs on nodes; the image on node2 lacks the program that the benchmark calls."""
    pattern = "{values: [{pattern: 'took (?P<value>\\S+) ms', metric: spmm, unit: ms}]}"
    top = f"benchmarks:\n  spmm:\n    command: 'echo \"took $N ms\" | grep took'\n    parse: {pattern}\n"
    name = recipe(top=top)
    addresses = {node: nodes[node].login for node in ("node1", "node2", "node3")}
    addresses |= {"away": nodes.down, "same": nodes["node1"].login}
    (tmp_path / "config.yaml").write_text(json.dumps({"nodes": addresses}))
    monkeypatch.setenv("REPROKIT_CONFIG", str(tmp_path / "config.yaml"))
    for node in ("node1", "node2", "node3"):
        put(nodes[node], name, tools=() if node == "node2" else ("grep",))

    def sweep(count: int, *used: str) -> tuple[dict, str, list]:
        runs = f"runs: [{{recipe: {name}, parameters: {{N: {[*range(count)]}}}}}]\n"
        (tmp_path / "s.yaml").write_text(f"{runs}nodes: [{', '.join(used)}, away, same]\n")
        done = call("sweep", tmp_path / "s.yaml", "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout), done.stderr, read(tmp_path / "results" / f"{name}.jsonl")

    return sweep


@pytest.mark.parametrize(
    ("count", "used"), [(2, ["node1", "node2"]), pytest.param(6, ["node1", "node2", "node3"], marks=pytest.mark.long)]
)
def test_jobs_of_a_sweep_run_on_all_nodes_and_failures_elsewhere(swept, count: int, used: list[str]):
    data, errors, records = swept(count, *used)
    assert (data["recorded"], data["failed"], data["plan"]["runner"]) == (count, [], "ssh")
    assert sorted(record.samples[0] for record in records) == [*range(count)]
    assert {record.node for record in records} == {*used} - {"node2"} and len({r.job for r in records}) == count
    assert "same is left out: it is the same machine as node1" in errors
    assert "away is left out: " in errors and "is tried again: node2: " in errors


def test_doctor_examines_a_node(nodes: Cluster, monkeypatch: pytest.MonkeyPatch):
    # The machine that runs the tests is busy.
    monkeypatch.setattr("reprokit.doctor.examined.ENGINE_S", 60)
    with examined_node(find(nodes["node1"].login), 60) as host:
        findings = {finding.rule: finding for finding in examine(host, CHECKS, 120)}
    assert {"engine", "storage", "kernel", "memory", "gpu"} <= set(findings)
    assert findings["storage"].subjects[0].startswith("engine.storage=") and "mirrors" not in findings
    done = call("doctor", "--on", nodes.down, "--json")
    answer = json.loads(done.stdout)
    assert (done.returncode, answer["ok"]) == (4, False)
    assert [finding["rule"] for finding in answer["findings"]] == ["node.unreachable"]


def test_an_export_excludes_layers_that_the_node_has(nodes: Cluster, images: Images, tmp_path: Path):
    machine, out = nodes["node1"], tmp_path / "x.rkit"
    base = images.base("held", {"a": noise(2 * MB, 77)})
    upon = images.on(base, "upon-held", [{"b": noise(MB, 40000)}])

    def absent() -> list[str]:
        done = call("export", upon, "--for", machine.login, "-o", out, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["absent"]

    assert absent() == []
    machine.engine().load(images.engine.save(base))
    assert tuple(absent()) == images.engine.image(base).layers
    assert out.stat().st_size < MB
    down = call("export", upon, "--for", nodes.down, "-o", out, "--json")
    assert (down.returncode, nodes.down in down.stderr) == (4, True)
