"""A node that answers nonsense, or prints without end before and after its login: one error of this node."""

from __future__ import annotations

import json
import os
import resource
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reprokit.config.nodes import Node
from reprokit.errors import EngineError, SourceError
from reprokit.nodes import remote_staging, send, survey
from reprokit.nodes.remote import Remote
from reprokit.nodes.ssh import SshConnection
from reprokit.untrusted.limits import NODE_ANSWER
from tests.support.ports import free_port
from tests.support.strangers import new_key
from tests.support.waiting import wait_for

HUGE = "9" * 5000
DIGEST = f"sha256:{'1' * 64}"
FACTS = "reprokit:uid 1\nreprokit:gid 1\nreprokit:cache /c\n"
IMAGE = {"id": DIGEST, "tags": ["x:1"], "layers": [DIGEST], "size": 1, "labels": {}}


class AnsweringNode:
    """In place of a connection: each script has the same answer."""

    node = Node("lab", "lab")

    def __init__(self, stdout: str) -> None:
        self._stdout = stdout

    def __enter__(self) -> AnsweringNode:
        return self

    def __exit__(self, *_: object) -> None: ...

    def run(self, *script: object, limit_s: float | None = 0) -> SimpleNamespace:
        return SimpleNamespace(returncode=0, stdout=self._stdout, stderr="")


def listing(*others: Any, free: str = "1") -> str:
    lines = ['{"Version": "20"}', "[]", '"overlay2"', free, "true", *map(json.dumps, others)]
    return "\n".join(["reprokit: inventory", *lines, ""])


ENGINES: dict[str, Callable[[], str]] = {
    "layers": lambda: listing({**IMAGE, "layers": [DIGEST] * 501}),
    "values": lambda: listing(IMAGE | {"labels": {str(number): "" for number in range(400_000)}}),
    **{free: lambda free=free: listing(free=free) for free in ("9" * 400, HUGE, "1e999")},
    **{
        line[:20]: lambda line=line: f"reprokit: inventory\n{line}\n"
        for line in (
            "[" * 100_000,
            '{"manifest": {}}',
            '{"id": 1, "labels": 1}',
            '{"x": 1}',
            '{"manifest"' + "[" * 9999,
        )
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_an_impossible_engine_is_one_line_of_the_survey(engine: str):
    answer = survey.ask(AnsweringNode(FACTS + ENGINES[engine]()), 1)
    assert answer.seen and answer.inventory is None and answer.error
    assert survey.ask(AnsweringNode(FACTS + listing(IMAGE)), 1).inventory  # the control


def test_harmless_oddities_are_read():
    labels = {"maintainer": "x\u0085y\u2028\x1c"}  # any character
    (image,) = survey.parse_inventory(
        listing() + json.dumps({**IMAGE, "labels": labels}, ensure_ascii=False), "lab"
    ).images
    assert image.labels == labels
    assert survey.parse_inventory(listing(free="-52"), "lab").free == 0  # the reserve of a full disk


@pytest.mark.parametrize("uid", [HUGE, "-1", "1_0", "\u0661", ""], ids=range(5))
def test_a_user_that_is_no_number_is_one_line_of_the_survey(uid: str):
    facts = FACTS.replace("uid 1", f"uid {uid}")
    answer = survey.ask(AnsweringNode(facts), 1)
    assert answer.seen is None and "is not a whole number" in answer.error and len(answer.error) < 200
    with pytest.raises(EngineError):
        _ = Remote(AnsweringNode(facts)).seen


def test_a_blob_of_an_impossible_size_is_not_known():
    blob = {"mediaType": "x", "digest": DIGEST, "size": 10**400}
    manifest = {"manifest": DIGEST, "content": {"schemaVersion": 2, "config": {**blob, "size": 1}, "layers": [blob]}}
    text = json.dumps(manifest, separators=(",", ":"))
    (image,) = survey.parse_inventory(listing(IMAGE) + text, "lab").images
    assert image.manifest is None
    (image,) = survey.parse_inventory(listing(IMAGE) + text.replace("0" * 400, ""), "lab").images
    assert image.manifest is not None


def test_a_staging_directory_of_nonsense_is_an_error_of_the_node():
    def prepared(lines: str) -> dict[str, int]:
        return remote_staging.prepare(AnsweringNode(f"reprokit: incoming\n/c\n{lines}\n"), "me").files

    for lines in (HUGE, "1\n-5 x.part", f"1\n{HUGE} x.part", "x", "1\nx", "1\nx a.part", "\u00b2", ""):
        with pytest.raises(SourceError, match=r"the node's answer is not valid|cannot store files"):
            prepared(lines)
    assert prepared("1\n5 a.part") == {"a.part": 5}


def test_numbers_of_a_node_have_few_digits():
    for free in (HUGE, "\u0661", "\u00b2", "-", ""):
        node = AnsweringNode(f"Filesystem\n/dev/sda 1 1 {free} 1% /\n")
        assert Remote(node).disk_free_bytes("/") is None
    assert Remote(AnsweringNode("x\na b c 5 d\n")).disk_free_bytes("/") == 5120
    assert survey.number("0" * 18) == 0 and survey.free_bytes("3") == 3072
    with pytest.raises(ValueError):
        survey.number("1" * 19)


def test_any_failure_of_one_node_is_its_own(monkeypatch, tmp_path):
    def refused(node: Node) -> None:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(send, "SshConnection", refused)
    needed: list[object] = []
    packing = SimpleNamespace(need=needed.append)
    sent = send.Delivery(AnsweringNode.node, packing, tmp_path, "me", False, lambda: None)
    sent.run()
    assert isinstance(sent.error, SourceError) and "Invalid argument" in sent.error.message
    assert needed == [None]  # the packing does not wait for this node


# --- A real sshd on loopback that runs what a test gives

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
HONEST = 'exec sh -c "$SSH_ORIGINAL_COMMAND"\n'
LOGIN_S = 60  # far more than a login takes on a busy machine
LOGIN = 'case $SSH_ORIGINAL_COMMAND in *"reprokit: connected"*) echo "reprokit: connected"; '
READY = f"{LOGIN}exec cat >/dev/null;; esac\n"


@dataclass
class Hostile:
    """A node; `login` is the shell script that any login to it runs."""

    node: Node
    folder: Path

    def login(self, script: str) -> None:
        (self.folder / "login").write_text(script)


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, int]]:
    program = shutil.which("sshd", path="/usr/sbin:/usr/bin")
    if os.geteuid() != 0 or not program:
        pytest.skip("nodes take root and openssh-server")
    folder, port = tmp_path_factory.mktemp("sshd"), free_port()
    for name in ("key", "hostkey"):
        new_key(folder, name)
    (folder / "sshd_config").write_text(_SSHD.format(folder=folder, port=port))
    (folder / "client").write_text(_CLIENT.format(folder=folder))
    (folder / "ssh").write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {folder}/client "$@"\n')
    (folder / "ssh").chmod(0o755)
    Path("/run/sshd").mkdir(exist_ok=True)
    process = subprocess.Popen([program, "-D", "-f", str(folder / "sshd_config")], stderr=subprocess.DEVNULL)
    wait_for(lambda: not socket.socket().connect_ex(("127.0.0.1", port)))
    yield folder, port
    process.kill()
    process.wait()


@pytest.fixture
def hostile(sshd: tuple[Path, int], monkeypatch: pytest.MonkeyPatch) -> Iterator[Hostile]:
    """No test with it may take much memory."""
    folder, port = sshd
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield Hostile(Node("hostile", "127.0.0.1", "root", port), folder)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 << 10  # KiB


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "limit_s", "words"),
    [
        ("exec yes flood", LOGIN_S, "prints more than 1024 KiB"),
        pytest.param("exec yes flood >&2", LOGIN_S, "prints more than 1024 KiB", marks=pytest.mark.long),
        ("while :; do echo drop; sleep 0.05; done", 2, "no login within 2 s"),
        ("exec sleep 9999", 2, "no login within 2 s"),
        ("exec cat", 2, "no login within 2 s"),
    ],
)
def test_a_login_that_never_ends_is_refused(hostile: Hostile, script: str, limit_s: float, words: str):
    hostile.login(f"{script}\n")
    with pytest.raises(SourceError, match=words) as error, SshConnection(hostile.node, limit_s):
        pass
    assert error.value.where == "hostile" and error.value.hint


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "sent", "limit_s", "words"),
    [
        ("exec yes flood", b"", LOGIN_S, "longer than 8 MiB"),
        pytest.param("exec yes flood >&2", b"", LOGIN_S, "longer than 8 MiB", marks=pytest.mark.long),
        ("while :; do echo drop; sleep 0.05; done", b"", 1, "no answer within 1 s"),
        ("exec sleep 9999", b"x" * (16 << 20), 1, "no answer within 1 s"),  # it reads no input
    ],
    ids=["flood", "flood of errors", "trickle", "deaf"],
)
def test_an_answer_that_never_ends_is_refused(hostile: Hostile, script: str, sent: bytes, limit_s: float, words: str):
    hostile.login(f"{READY}{script}\n")
    with SshConnection(hostile.node, LOGIN_S) as connection, pytest.raises(SourceError, match=words) as error:
        connection.run("echo here", sent, limit_s=limit_s)
    assert "MiB" not in words or error.value.hint.endswith("REPROKIT_LIMIT_NODE_ANSWER=16777216")


@pytest.mark.slow
def test_a_flood_after_the_connection_is_not_read(hostile: Hostile):
    """The connection goes on serving."""
    hostile.login(f"{LOGIN}yes >&2 & exec yes;; esac\n{HONEST}")
    with SshConnection(hostile.node, LOGIN_S) as connection:
        time.sleep(0.5)
        assert connection.run("echo here").stdout == "here\n"


@pytest.mark.slow
def test_an_honest_node_answers_at_length_and_a_flood_is_one_line_of_the_survey(hostile: Hostile):
    hostile.login(f"echo Welcome; echo to a node >&2; {HONEST}")
    with SshConnection(hostile.node, LOGIN_S) as connection:
        answer = connection.run(f"cat; head -c {NODE_ANSWER.most - 100} /dev/zero | tr '\\0' x; exit 7", b"in" * 10)
        assert answer.returncode == 7 and answer.stdout.startswith("Welcome\n" + "in" * 10 + "x")
        assert len(answer.stdout) == NODE_ANSWER.most - 72 and answer.stderr == "to a node\n"
        assert connection.run("cat >/dev/null", b"x" * (2 << 20)).returncode == 0
    hostile.login("exec yes\n")
    (line,) = survey.survey([hostile.node], LOGIN_S)
    assert line.seen is None and "more than 1024 KiB" in line.error
