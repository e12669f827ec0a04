"""Connections to nodes through real sshds, and the addresses of engines that ssh forwards."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from reprokit.errors import EngineError, SourceError
from reprokit.nodes.config import find
from reprokit.nodes.remote import engine_behind
from reprokit.nodes.ssh import SshConnection
from reprokit.nodes.survey import INVENTORY_SCRIPT, inventory, parse_inventory
from tests.support.waiting import wait_for

AWKWARD = 'it\'s "100%" a\\tb !x $HOME `id` ü\n  second line\t*'


def test_a_script_is_run_as_it_is_by_every_login_shell(nodes):
    script = f"cat <<'END'\n{AWKWARD}\nEND\n"
    with SshConnection(find(nodes["node1"].login)) as connection:
        answer = connection.run(f"{script}cat; echo wrong >&2; exit 7", b"and input\n")
        with connection.popen(script) as process:
            *_, line = process.args
    assert (answer.stdout, answer.stderr, answer.returncode) == (f"{AWKWARD}\nand input\n", "wrong\n", 7)
    # csh, whose quoting differs from that of sh, reads the same line.
    assert subprocess.run(["csh", "-c", line], capture_output=True, text=True, check=True).stdout == f"{AWKWARD}\n"


def test_behind_a_jump_host_and_by_a_name_of_the_ssh_configuration(nodes):
    with SshConnection(find(nodes["hidden"].login, jump=nodes["gate"].login)) as connection:
        assert inventory(connection).storage
    file = Path(os.environ["HOME"]) / ".ssh" / "config"
    before = file.read_text()
    hidden, gate = nodes["hidden"].address, nodes["gate"].login
    file.write_text(f"{before}Host far\n  HostName {hidden}\n  User root\n  ProxyJump {gate}\n  RemoteCommand id\n")
    try:
        with SshConnection(find("far")) as connection:
            assert connection.run("echo here").stdout == "here\n"
    finally:
        file.write_text(before)


def test_unreachable_nodes_say_why(nodes, monkeypatch):
    monkeypatch.setenv("RES_OPTIONS", "timeout:1 attempts:1")  # a name server may not answer at all
    with socket.create_server(("127.0.0.1", 0)) as silent:  # the kernel takes the connection, and nobody answers
        for text, said in [
            (nodes.down, "route|unreachable|timed out"),
            (f"nobody@{nodes['node1'].address}", "Permission denied"),
            (f"{nodes['node1'].login}:23", "refused"),
            ("root@nowhere.invalid", "resolve"),
            (f"root@127.0.0.1:{silent.getsockname()[1]}", r"timed out|no login within"),
        ]:
            with pytest.raises(SourceError, match=said) as error, SshConnection(find(text)):
                pass
            assert error.value.where == text
            assert error.value.hint


def test_an_unknown_host_key_is_refused(nodes):
    (nodes.folder / "known_hosts").rename(nodes.folder / "aside")
    node = find(nodes["node1"].login)
    try:
        with pytest.raises(SourceError, match="Host key verification failed"), SshConnection(node):
            pass
    finally:
        (nodes.folder / "aside").rename(nodes.folder / "known_hosts")


@pytest.mark.slow
def test_what_ssh_says_at_its_end_is_read(monkeypatch, tmp_path):
    """We look for output and find none; ssh writes its error and ends; then we see that it has ended."""
    ssh = tmp_path / "ssh"
    # A second process keeps the pipes open after ssh has ended, as the ssh of a jump host does.
    ssh.write_text("#!/bin/sh\nsleep 5 &\nsleep 1\necho ssh: connect to host x: No route to host >&2\nexit 255\n")
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(subprocess.Popen, "poll", lambda process: process.wait())
    with pytest.raises(SourceError, match="No route to host"), SshConnection(find("x")):
        pass


def test_a_killed_process_leaves_nothing_on_the_node(nodes):
    machine = nodes["node3"]
    program = (
        "import time\nfrom reprokit.nodes.config import find\nfrom reprokit.nodes.ssh import SshConnection\n"
        f"c = SshConnection(find({machine.login!r})).__enter__()\nc.popen('exec cat - /dev/98765')\ntime.sleep(9999)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program])
    try:
        wait_for(lambda: machine.pids("98765"))
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    wait_for(lambda: not machine.pids("root@notty"))


def test_an_inventory_has_images_and_layers(nodes):
    engine = nodes["node1"].engine()
    engine.import_image(iter([b"\0" * 10240]), "kept", "1", ["LABEL reprokit.recipe=r other=x"])
    with SshConnection(find(nodes["node1"].login)) as connection:
        listed = inventory(connection)
    (image,) = [image for image in listed.images if "kept:1" in image.tags]
    assert image.labels == {"reprokit.recipe": "r", "other": "x"}
    assert image.id == engine.image("kept:1").id
    assert listed.chains.present((*image.layers, "sha256:other")) == 1
    assert listed.chains.present(("sha256:other", *image.layers)) == 0
    with SshConnection(find(nodes["gate"].login)) as connection, pytest.raises(EngineError, match="no Docker Engine"):
        inventory(connection)


def test_an_image_that_is_removed_while_it_is_listed(engine, tmp_path):
    shim = tmp_path / "docker"
    shim.write_text(f'#!/bin/sh\n[ "$1 $2" = "image ls" ] && echo sha256:{64 * "0"} || {shutil.which("docker")} "$@"\n')
    shim.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["sh", "-c", INVENTORY_SCRIPT], env=environment, capture_output=True, text=True, check=True)
    assert parse_inventory(done.stdout, "here").images == ()


# An ssh that is not there: it is started for addresses that are forwarded.
CONNECTION = SimpleNamespace(control=("/nowhere/ssh",), node=SimpleNamespace(name="lab"))


def forwarded(address: str) -> None:
    with engine_behind(CONNECTION, None, address):
        pass


def test_only_an_address_that_ssh_reads_as_it_is_is_forwarded():
    sockets = ["unix:///tmp/${TOKEN}", "unix:///tmp/%h", "unix:///a:b", "unix:///a b"]
    for address in [*sockets, "tcp://${TOKEN}:1", "tcp://h:1:2", "ssh://h"]:
        with pytest.raises(EngineError, match="cannot forward an engine at"):
            forwarded(address)
    for address in ("unix:///run/user/1000/docker.sock", "tcp://10.0.0.1:2375", "tcp://[::1]:2375/"):
        with pytest.raises(FileNotFoundError):
            forwarded(address)
