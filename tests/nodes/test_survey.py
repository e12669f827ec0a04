"""`reprokit nodes` on nodes that are up, down, without an engine, or behind a jump host, and what a node reports."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reprokit.host import machine
from reprokit.host.gpu import Gpu
from reprokit.host.user import Caller
from reprokit.nodes.survey import FACTS_SCRIPT, parse_facts
from tests.support.cluster import Cluster
from tests.support.images import tar_of
from tests.support.machine import Machine
from tests.support.nvidia_smi import smi_program
from tests.support.processes import send_when_asleep
from tests.support.verbs import run_verb
from tests.support.waiting import wait_for

CARD = {"name": "NVIDIA GeForce RTX 3090", "driver_version": "535.54.03", "compute_cap": "8.6"}
TWO_CARDS = smi_program({"index": "0", **CARD}, {"index": "1", **CARD})
OLD_DRIVER = smi_program({"index": "0", "name": "Tesla K80", "driver_version": "440.33.01"})
HUNG = "#!/bin/sh\nsleep 9999\n"


def put(node: Machine, recipe: str, variant: str, inputs: str) -> None:
    """Put an empty image there."""
    labels = f"reprokit.recipe={recipe} reprokit.variant={variant} reprokit.inputs={inputs}"
    node.engine().import_image(io.BytesIO(tar_of({})), f"reprokit/{recipe}", variant, [f"LABEL {labels}"])


@pytest.fixture
def smi(nodes: Cluster) -> Iterator[Callable[[Machine, str], None]]:
    """`smi(node, program)` puts an nvidia-smi on the PATH of a node, for one test."""
    changed: list[Machine] = []

    def put(node: Machine, program: str) -> None:
        node.inside("mount", "-t", "tmpfs", "tmpfs", "/usr/local/sbin")
        changed.append(node)
        node.inside(
            "sh", "-c", f"cat > /usr/local/sbin/nvidia-smi <<'PROGRAM'\n{program}PROGRAM\nchmod 755 /usr/local/sbin/*"
        )

    yield put
    for node in changed:
        node.inside("umount", "/usr/local/sbin")


def test_the_table(nodes: Cluster, recipe, locked, smi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    name = recipe('  cpu: {base: "debian:12"}\n  gpu: {base: "debian:12"}\n')
    one, hidden, gate = nodes["node1"], nodes["hidden"], nodes["gate"]
    put(one, name, "cpu", "of-yesterday")
    put(one, name, "gpu", "any")
    put(one, "reprokit-test-unknown", "cpu", "any")
    put(hidden, name, "cpu", locked(name))
    smi(one, TWO_CARDS)
    smi(hidden, OLD_DRIVER)
    config = tmp_path / "config.yaml"
    config.write_text(
        f"nodes:\n  lab1: {one.login}\n  lab2: {nodes.down}\n"
        f"  far: {{address: {hidden.login}, jump: {gate.login}}}\n  way: {gate.login}\n"
    )
    monkeypatch.setenv("REPROKIT_CONFIG", str(config))
    done = run_verb("nodes", "--timeout", "60", "--json")
    assert done.returncode == 0, done.stderr
    lab1, lab2, far, way = json.loads(done.stdout)
    assert (lab1["name"], lab1["engine"], lab1["nested"]) == ("lab1", one.engine().version().version, False)
    assert lab1["gpus"] == [{"name": "NVIDIA GeForce RTX 3090", "compute_capability": "8.6"}] * 2
    assert lab1["driver"] == "535.54.03" and lab1["free"] > 1 << 20 and lab1["error"] is None
    mine = {(image["label"], image["freshness"]) for image in lab1["images"]}
    assert mine >= {(f"{name}:cpu", "other inputs"), (f"{name}:gpu", "no lock"), ("reprokit-test-unknown:cpu", "")}
    assert (lab2["reachable"], lab2["engine"]) == (False, None) and lab2["error"]
    assert (f"{name}:cpu", "current") in [(image["label"], image["freshness"]) for image in far["images"]]
    assert (far["gpus"], far["driver"]) == ([{"name": "Tesla K80", "compute_capability": ""}], "440.33.01")
    assert way["reachable"] and way["engine"] is None and "no engine" in way["error"]

    lines = run_verb("nodes", "--timeout", "60").stdout.splitlines()
    first, *_ = [line for line in lines if line.startswith("lab1")]
    assert "2 x NVIDIA GeForce RTX 3090" in first and "535.54.03" in first
    assert any(f"{name}:cpu (other inputs)" in line for line in lines)
    assert any(line.startswith("lab2") and "down: " in line for line in lines)


def test_a_hanging_gpu_costs_no_more_than_the_limit(nodes: Cluster, smi):
    smi(nodes["node2"], HUNG)
    (row,) = json.loads(run_verb("nodes", nodes["node2"].login, "--timeout", "30", "--json").stdout)
    assert row["engine"] and row["gpus"] == [] and row["error"] == "nvidia-smi does not answer"


def test_no_node_answers_or_is_configured(nodes: Cluster):
    done = run_verb("nodes", nodes.down, "--timeout", "1")
    assert done.returncode == 4 and "down: " in done.stdout and "no node answers" in done.stderr
    done = run_verb("nodes")
    assert done.returncode == 2 and "nodes:" in done.stderr


@pytest.mark.slow
def test_ctrl_c_does_not_wait_for_a_node_that_never_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    ssh = tmp_path / "ssh"
    ssh.write_text('#!/bin/sh\ntouch "$0-asked"\nexec sleep 9999\n')  # ssh itself gives up after a while
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    words = [sys.executable, "-m", "reprokit", "nodes", "root@lab.test", "--timeout", "9999"]
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            wait_for((tmp_path / "ssh-asked").exists)
            send_when_asleep(process.pid)
            _, errors = process.communicate(timeout=200)
        finally:
            process.kill()
    # A shell sees 130 for both: CPython ends by the signal itself if it arrives while a dataclass is being made.
    assert process.returncode in (130, -signal.SIGINT) and b"interrupted" in errors


ID = "9f" * 32
SAID = f"""\
Welcome to lab1! reprokit:uid is nobody's
reprokit:uid 1001
reprokit:gid 100
reprokit:groups 100 27 998
reprokit:user ana
reprokit:cache /home/ana/my caches
reprokit:memory MemTotal:       65843332 kB
reprokit:proxy http_proxy=http://proxy:3128
reprokit:proxy NO_PROXY=localhost,.lab
reprokit:listening    0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0 100
reprokit:listening    1: 00000000000000000000000000000000:0016 0000000000000000:0000 0A 00000000:00000000 0 0 0
reprokit:mount 511 500 8:1 /docker/containers/{ID}/hostname /etc/hostname rw,relatime - ext4 /dev/sda1 rw
reprokit:device /dev/nvidiactl
reprokit:module 535.54.03
reprokit:smi answers
reprokit:smi_fields index,name,driver_version,compute_cap
reprokit:smi_line 0, NVIDIA A100-SXM4-80GB, 535.54.03, 8.0
reprokit:docker unix:///run/user/1001/docker.sock
reprokit:running {ID}
"""


def test_all_facts():
    seen = parse_facts(SAID)
    assert seen.caller == Caller(1001, 100, (100, 27, 998), "ana")
    assert (seen.cache, seen.memory) == ("/home/ana/my caches", 65843332 * 1024)
    assert seen.proxies == {"http_proxy": "http://proxy:3128", "NO_PROXY": "localhost,.lab"}
    assert seen.listening == {8080, 22} and seen.devices == ("/dev/nvidiactl",)
    assert seen.gpus == (Gpu("NVIDIA A100-SXM4-80GB", "535.54.03", "8.0", "0"),)
    assert seen.docker == "unix:///run/user/1001/docker.sock"
    assert seen.nested and not seen.hung
    assert not parse_facts(SAID.replace(f"reprokit:running {ID}", "reprokit:running " + "aa" * 32)).nested


def test_few_facts():
    seen = parse_facts("reprokit:uid 0\nreprokit:gid 0\nreprokit:cache /root/.cache\nreprokit:module 440.33.01\n")
    # Only the driver's module is known.
    assert seen.gpus == (Gpu("", "440.33.01", ""),)
    assert seen.docker == "unix:///var/run/docker.sock" and not seen.nested and seen.memory is None


@pytest.mark.parametrize("output", ["", "bash: id: command not found\n", "reprokit:uid x\nreprokit:gid 0\n"])
def test_an_invalid_answer(output: str):
    with pytest.raises(ValueError):
        parse_facts(output)


def test_the_script_runs_anywhere():
    done = subprocess.run(["sh", "-c", FACTS_SCRIPT], capture_output=True, text=True, check=True)
    seen = parse_facts(done.stdout)
    assert seen.cache.startswith("/") and seen.machine == machine.Machine().identity() != ""


def test_the_nodes_engine_is_chosen_as_on_this_machine(tmp_path):
    variables = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    for name, value in (("CONTAINER_HOST", "unix:///podman.sock"), ("DOCKER_HOST", "unix:///docker.sock")):
        variables[name] = value
        done = subprocess.run(["sh", "-c", FACTS_SCRIPT], capture_output=True, text=True, check=True, env=variables)
        assert parse_facts(done.stdout).docker == value


def test_a_line_of_digits_is_read_at_once():
    """Searched, it would take hours, in which nothing else of the process goes on."""
    assert parse_facts(SAID + f"reprokit:memory {'9' * 4_000_000}\n").cache
    assert parse_facts(f"reprokit:memory {'9' * 4_000_000}\n{SAID}").memory is None
