"""A node that prints without end, before and after its login: a real sshd on loopback that runs what a test gives."""

from __future__ import annotations

import os
import resource
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from reprokit.config.nodes import Node
from reprokit.errors import SourceError
from reprokit.nodes import survey
from reprokit.nodes.ssh import SshConnection
from reprokit.untrusted.limits import NODE_ANSWER
from tests.support.ports import free_port
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow

_SSHD = """
ListenAddress 127.0.0.1:{port}
HostKey {folder}/hostkey
PidFile none
AuthorizedKeysFile {folder}/key.pub
StrictModes no
UsePAM no
PermitRootLogin prohibit-password
PasswordAuthentication no
ForceCommand sh {folder}/login
"""
_CLIENT = """
IdentityFile {folder}/key
IdentitiesOnly yes
UserKnownHostsFile /dev/null
StrictHostKeyChecking no
"""
_HONEST = 'exec sh -c "$SSH_ORIGINAL_COMMAND"\n'
LOGIN_S = 60  # far more than a login takes on a busy machine
_LOGIN = 'case $SSH_ORIGINAL_COMMAND in *"reprokit: connected"*) echo "reprokit: connected"; '
_READY = f"{_LOGIN}exec cat >/dev/null;; esac\n"


@dataclass
class Hostile:
    """A node; `login` is the shell script that any login to it runs."""

    node: Node
    folder: Path

    def login(self, script: str) -> None:
        (self.folder / "login").write_text(script)


@pytest.fixture(scope="module")
def _sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, int]]:
    sshd = shutil.which("sshd", path="/usr/sbin:/usr/bin")
    if os.geteuid() != 0 or not sshd:
        pytest.skip("nodes take root and openssh-server")
    folder = tmp_path_factory.mktemp("sshd")
    for name in ("key", "hostkey"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    port = free_port()
    (folder / "sshd_config").write_text(_SSHD.format(folder=folder, port=port))
    (folder / "client").write_text(_CLIENT.format(folder=folder))
    (folder / "bin").mkdir()
    wrapper = folder / "bin" / "ssh"
    wrapper.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {folder}/client "$@"\n')
    wrapper.chmod(0o755)
    Path("/run/sshd").mkdir(exist_ok=True)
    process = subprocess.Popen([sshd, "-D", "-f", str(folder / "sshd_config")], stderr=subprocess.DEVNULL)
    wait_for(lambda: not socket.socket().connect_ex(("127.0.0.1", port)))
    yield folder, port
    process.kill()
    process.wait()


@pytest.fixture
def hostile(_sshd: tuple[Path, int], monkeypatch: pytest.MonkeyPatch) -> Hostile:
    folder, port = _sshd
    monkeypatch.setenv("PATH", f"{folder / 'bin'}:{os.environ['PATH']}")
    return Hostile(Node("hostile", "127.0.0.1", "root", port), folder)


@pytest.fixture(autouse=True)
def bounded() -> Iterator[None]:
    """No test here may take much memory."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 << 10  # KiB


@pytest.mark.parametrize("stream", ["1", "2"])
def test_a_flood_before_the_login_is_done_is_refused(hostile, stream):
    hostile.login(f"exec yes flood >&{stream}\n")
    with pytest.raises(SourceError, match="prints more than 1024 KiB") as error, SshConnection(hostile.node, LOGIN_S):
        pass
    assert error.value.where == "hostile" and error.value.hint


@pytest.mark.parametrize("script", ["while :; do echo drop; sleep 0.05; done", "exec sleep 9999", "exec cat"])
def test_a_login_that_never_ends_keeps_to_its_time(hostile, script):
    hostile.login(f"{script}\n")
    with pytest.raises(SourceError, match="no login within 2 s"), SshConnection(hostile.node, 2):
        pass


@pytest.mark.parametrize("stream", ["1", "2"])
def test_a_flood_as_an_answer_is_refused(hostile, stream):
    hostile.login(f"{_READY}exec yes flood >&{stream}\n")
    with (
        SshConnection(hostile.node, LOGIN_S) as connection,
        pytest.raises(SourceError, match="longer than 8 MiB") as error,
    ):
        connection.run("echo here")
    assert error.value.hint.endswith("REPROKIT_LIMIT_NODE_ANSWER=16777216")


def test_a_trickle_as_an_answer_keeps_to_its_time(hostile):
    hostile.login(f"{_READY}while :; do echo drop; sleep 0.05; done\n")
    with SshConnection(hostile.node, LOGIN_S) as connection, pytest.raises(SourceError, match="no answer within 1 s"):
        connection.run("echo here", limit_s=1)


def test_a_node_that_reads_no_input_keeps_to_its_time(hostile):
    hostile.login(f"{_READY}exec sleep 9999\n")
    with SshConnection(hostile.node, LOGIN_S) as connection, pytest.raises(SourceError, match="no answer within 1 s"):
        connection.run("cat", b"x" * (16 << 20), limit_s=1)


def test_a_flood_after_the_connection_is_held_back(hostile):
    """What the held login prints is not read; the connection goes on serving."""
    hostile.login(f"{_LOGIN}yes >&2 & exec yes;; esac\n{_HONEST}")
    with SshConnection(hostile.node, LOGIN_S) as connection:
        time.sleep(0.5)
        assert connection.run("echo here").stdout == "here\n"


@pytest.mark.parametrize("line", ["[" * 100_000, '{"manifest"' + "[" * 100_000])
def test_nonsense_as_an_answer_is_one_line_of_the_survey(hostile, line):
    (hostile.folder / "line").write_text(line)
    facts = "".join(f"reprokit:{name} {value}\\n" for name, value in (("uid", 0), ("gid", 0), ("cache", "/c")))
    begin = survey.inventory._BEGIN
    hostile.login(f"{_READY}printf '{facts}{begin}\\n'; cat {hostile.folder}/line\n")
    (answer,) = survey.survey([hostile.node], LOGIN_S)
    assert answer.seen and not answer.inventory and "is not valid" in answer.error


def test_a_flood_is_one_line_of_the_survey(hostile):
    hostile.login("exec yes\n")
    (answer,) = survey.survey([hostile.node], LOGIN_S)
    assert answer.seen is None and "more than 1024 KiB" in answer.error


def test_an_honest_node_answers_at_length(hostile):
    hostile.login(f"echo Welcome; echo to a node >&2; {_HONEST}")
    with SshConnection(hostile.node, LOGIN_S) as connection:
        answer = connection.run(f"cat; head -c {NODE_ANSWER.most - 100} /dev/zero | tr '\\0' x; exit 7", b"in" * 10)
        assert answer.returncode == 7 and answer.stdout.startswith("Welcome\n" + "in" * 10 + "x")
        assert len(answer.stdout) == NODE_ANSWER.most - 72 and answer.stderr == "to a node\n"
        assert connection.run("cat >/dev/null", b"x" * (2 << 20)).returncode == 0
