"""`reprokit nodes` on nodes that are up, down, without an engine, behind a jump host, or in a container."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reprokit.image.lock.read import required_inputs
from reprokit.image.lock.sections import sections
from reprokit.image.render import render
from reprokit.recipe.find import target
from reprokit.supply.lock.file import lock_path, write
from reprokit.supply.lock.model import Base, Lock, VariantLock
from tests.support.cluster import Cluster
from tests.support.machine import Machine
from tests.support.names import unique
from tests.support.processes import send_when_asleep
from tests.support.verbs import run_verb
from tests.support.waiting import wait_for

pytestmark = pytest.mark.engine
RECIPE = """\
name: {name}
paper: {{title: T, venue: V, year: 2024, licence: none}}
variants:
  cpu: {{base: "debian:12"}}
  gpu: {{base: "debian:12"}}
"""
TWO_CARDS = """\
#!/bin/sh
case $1 in --query-gpu=name,driver_version,compute_cap) ;; *) exit 2 ;; esac
echo 'NVIDIA GeForce RTX 3090, 535.54.03, 8.6'
echo 'NVIDIA GeForce RTX 3090, 535.54.03, 8.6'
"""
OLD_DRIVER = """\
#!/bin/sh
[ "$1" != --query-gpu=driver_version ] || { echo 440.33.01; exit 0; }
echo 'Field "compute_cap" is not a valid field to query.'
exit 2
"""
HUNG = "#!/bin/sh\nsleep 9999\n"
Call = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A recipe with a lock of its variant `cpu`."""
    name = unique("survey")
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / f"{name}.yaml").write_text(RECIPE.format(name=name))
    monkeypatch.chdir(tmp_path)
    found = target(f"{name}:cpu")
    inputs = sections(found, render(found), "x86_64")
    base = Base(reference="debian:12", digest="sha256:" + "1" * 64)
    lock = VariantLock(reprokit="0", inputs=inputs, python="3.11", glibc="2.36", machine="x86_64", base=base)
    write(lock_path(found.path), Lock(recipe=name, variants={"cpu": lock}))
    return name


def put(node: Machine, recipe: str, variant: str, inputs: str) -> None:
    """Put an image there."""
    labels = f"reprokit.recipe={recipe} reprokit.variant={variant} reprokit.inputs={inputs}"
    node.engine().import_image(io.BytesIO(_empty()), f"reprokit/{recipe}", variant, [f"LABEL {labels}"])


def _empty() -> bytes:
    out = io.BytesIO()
    tarfile.open(fileobj=out, mode="w").close()
    return out.getvalue()


@pytest.fixture
def smi(nodes: Cluster) -> Iterator[Callable[[Machine, str], None]]:
    """`smi(node, program)` puts an nvidia-smi on the PATH of a node, for one test."""
    changed: list[Machine] = []

    def put(node: Machine, program: str) -> None:
        node.inside("mount", "-t", "tmpfs", "tmpfs", "/usr/local/sbin")
        changed.append(node)
        node.inside("sh", "-c", f"cat > /usr/local/sbin/nvidia-smi <<'END'\n{program}END\nchmod 755 /usr/local/sbin/*")

    yield put
    for node in changed:
        node.inside("umount", "/usr/local/sbin")


def call(*args: str) -> subprocess.CompletedProcess[str]:
    return run_verb(*args)


def test_the_table(nodes: Cluster, name: str, smi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    one, hidden, gate = nodes["node1"], nodes["hidden"], nodes["gate"]
    put(one, name, "cpu", "of-yesterday")
    put(one, name, "gpu", "any")
    put(one, "reprokit-test-unknown", "cpu", "any")
    put(hidden, name, "cpu", required_inputs(target(f"{name}:cpu")) or "")
    smi(one, TWO_CARDS)
    smi(hidden, OLD_DRIVER)
    config = tmp_path / "config.yaml"
    config.write_text(
        f"nodes:\n  lab1: {one.login}\n  lab2: {nodes.down}\n"
        f"  far: {{address: {hidden.login}, jump: {gate.login}}}\n  way: {gate.login}\n"
    )
    monkeypatch.setenv("REPROKIT_CONFIG", str(config))
    done = call("nodes", "--timeout", "60", "--json")
    assert done.returncode == 0, done.stderr
    lab1, lab2, far, way = json.loads(done.stdout)
    engine = one.engine()
    assert (lab1["name"], lab1["engine"], lab1["nested"]) == ("lab1", engine.version()["Version"], False)
    assert lab1["gpus"] == [{"name": "NVIDIA GeForce RTX 3090", "compute_capability": "8.6"}] * 2
    assert lab1["driver"] == "535.54.03" and lab1["free"] > 1 << 20 and lab1["error"] is None
    mine = [(i["label"], i["freshness"]) for i in lab1["images"] if "test-" in i["label"]]
    assert (f"{name}:cpu", "other inputs") in mine and (f"{name}:gpu", "no lock") in mine
    assert ("reprokit-test-unknown:cpu", "") in mine
    assert (lab2["reachable"], lab2["engine"]) == (False, None) and lab2["error"]
    assert (f"{name}:cpu", "current") in [(i["label"], i["freshness"]) for i in far["images"]]
    assert (far["gpus"], far["driver"]) == ([], "440.33.01")
    assert way["reachable"] and way["engine"] is None and "no engine" in way["error"]

    lines = call("nodes", "--timeout", "60").stdout.splitlines()
    first, *_ = [line for line in lines if line.startswith("lab1")]
    assert "2 x NVIDIA GeForce RTX 3090" in first and "535.54.03" in first
    assert any(f"{name}:cpu (other inputs)" in line for line in lines)
    assert any(line.startswith("lab2") and "down: " in line for line in lines)


def test_a_hanging_gpu_costs_no_more_than_the_limit(nodes: Cluster, smi):
    smi(nodes["node2"], HUNG)
    (row,) = json.loads(call("nodes", nodes["node2"].login, "--timeout", "30", "--json").stdout)
    assert row["engine"] and row["gpus"] == []
    assert row["error"] == "nvidia-smi does not answer"


def test_none_answers(nodes: Cluster):
    done = call("nodes", nodes.down, "--timeout", "1")
    assert done.returncode == 4 and "down: " in done.stdout and "no node answers" in done.stderr


def test_ctrl_c_does_not_wait_for_a_node_that_never_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    ssh = tmp_path / "ssh"
    ssh.write_text('#!/bin/sh\ntouch "$0-asked"\nexec sleep 9999\n')  # ssh itself gives up after a while
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    words = [sys.executable, "-m", "reprokit", "nodes", "root@lab.test", "--timeout", "9999"]
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as asking:
        try:
            wait_for((tmp_path / "ssh-asked").exists)
            send_when_asleep(asking.pid)
            _, errors = asking.communicate(timeout=200)
        finally:
            asking.kill()
    # A shell sees 130 for both: CPython ends by the signal itself if it arrives while a dataclass is being made.
    assert asking.returncode in (130, -signal.SIGINT) and b"interrupted" in errors


def test_none_configured():
    done = call("nodes")
    assert done.returncode == 2 and "nodes:" in done.stderr
