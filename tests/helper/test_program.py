"""The helper program: the committed binaries are builds of the source, and each build behaves."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from reprokit.errors import EngineError
from reprokit.helper.program import program
from tests.support.privileges import need_root
from tests.support.waiting import wait_for

# Compiler and emulator.
TOOLS = {"amd64": ("x86_64-linux-gnu-gcc", "qemu-x86_64"), "arm64": ("aarch64-linux-gnu-gcc", "qemu-aarch64")}
NATIVE = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine)
# As process 1 of a PID namespace, which gets no signal that it does not read.
PROCESS_1 = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child"]
INSIDE = 'ip link set lo up && exec "$@"'
# Hands out sockets of the network that it is in.
SOCKETS = """
import socket
ours = socket.socket(fileno=0)
while ours.recv(1):
    with socket.socket() as made:
        socket.send_fds(ours, [b"."], [made.fileno()])
"""


@pytest.fixture(scope="module", params=TOOLS)
def architecture(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module", params=["committed", "compiled"])
def command(request: pytest.FixtureRequest, architecture: str, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What runs the program, in the emulator where this machine is another one."""
    file = program(architecture)
    if request.param == "compiled":
        file = compiled(architecture, tmp_path_factory.mktemp("helper") / "helper")
    if architecture == NATIVE:
        return [str(file)]
    emulator = TOOLS[architecture][1]
    if not shutil.which(emulator):
        pytest.skip(f"{emulator} is not installed")
    return [emulator, str(file)]


def compiled(architecture: str, file: Path) -> Path:
    compiler = TOOLS[architecture][0]
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is not installed")
    subprocess.run(["sh", str(program(architecture).parent / "build.sh"), str(file), compiler], check=True)
    return file


@pytest.mark.compiler
def test_the_committed_program_is_a_build_of_the_source(architecture: str, tmp_path: Path):
    built = compiled(architecture, tmp_path / "elsewhere")
    compiler = TOOLS[architecture][0]
    version = subprocess.run([compiler, "-dumpfullversion"], capture_output=True, text=True, check=True).stdout
    linker = subprocess.run([compiler, "-Wl,--version"], capture_output=True, text=True, check=False).stdout
    committed = program(architecture)
    assert committed.stat().st_size < 8192 and os.access(committed, os.X_OK)
    if version.strip() == "12.2.0" and "2.40" in linker.splitlines()[0]:
        assert committed.read_bytes() == built.read_bytes()


def test_another_architecture_is_an_error_of_the_host():
    with pytest.raises(EngineError, match="not compiled for s390x") as error:
        program("s390x")
    assert "amd64 or arm64" in error.value.hint


@pytest.mark.compiler
@pytest.mark.parametrize("stop", ["-TERM", "-INT"])
def test_idle_ends_at_once_on_a_signal(command: list[str], stop: str):
    with subprocess.Popen([*command, "idle"], env={"LD_PRELOAD": "/nowhere.so"}) as process:
        wait_for(lambda: "signalfd" in descriptors(process.pid))  # from then on it reads its signals
        assert process.poll() is None
        subprocess.run(["kill", stop, str(process.pid)], check=True)
        assert process.wait(120) == 0


@pytest.mark.compiler
def test_idle_as_process_1_reaps_and_ends():
    """Its orphans are reaped; as process 1 a signal without a handler would be dropped."""
    if NATIVE is None or subprocess.run([*PROCESS_1, "true"], capture_output=True).returncode:
        pytest.skip("no PID namespace can be made here")
    # The shell's child outlives it as the helper's own.
    script = 'sleep 0.2 & exec "$0" idle'
    with subprocess.Popen([*PROCESS_1, "sh", "-c", script, str(program(NATIVE))]) as process:
        wait_for(lambda: (found := children(process.pid)) and "helper" in name_of(found[0]))
        (helper,) = children(process.pid)
        wait_for(lambda: not children(helper) and "signalfd" in descriptors(helper))
        os.kill(helper, 15)
        assert process.wait(120) == 0


def children(process: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def descriptors(process: int) -> str:
    """What the open descriptors of a process lead to."""
    found = []
    for link in Path(f"/proc/{process}/fd").iterdir():
        with contextlib.suppress(OSError):  # closed meanwhile
            found.append(str(link.readlink()))
    return " ".join(found)


def name_of(process: int) -> str:
    return Path(f"/proc/{process}/comm").read_text()


class Reversing:
    """A server at a unix socket that answers with what it got, the other way round, once all of it is there."""

    def __init__(self, path: Path) -> None:
        self.listening = socket.socket(socket.AF_UNIX)
        self.listening.bind(str(path))
        self.listening.listen(200)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while client := self._next():
            threading.Thread(target=self._answer, args=[client], daemon=True).start()

    def _next(self) -> socket.socket | None:
        try:
            return self.listening.accept()[0]
        except OSError:  # closed
            return None

    def _answer(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):  # a client may go away
            received = b"".join(iter(lambda: client.recv(65536), b""))
            client.sendall(received[::-1])


class Build:
    """`helper build` as process 1 of namespaces of its own, with a gateway that answers in reverse."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self.gateway = Reversing(folder / "gateway").listening
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(folder / "control"))
            listening.listen()
            inside = ["unshare", "--net", "--pid", "--fork", "--kill-child", "sh", "-c", INSIDE, "sh"]
            self.process = subprocess.Popen([*inside, *command, "build", str(folder)])
            self.control = listening.accept()[0]
        wait_for(lambda: "signalfd" in descriptors(self.helper))  # then it listens at once
        enter = ["nsenter", f"--net=/proc/{self.helper}/ns/net", sys.executable, "-c", SOCKETS]
        ours, theirs = socket.socketpair()
        with theirs:
            self.sockets, self.maker = ours, subprocess.Popen(enter, stdin=theirs.fileno())

    @property
    def helper(self) -> int:
        return children(self.process.pid)[0]

    def connect(self) -> socket.socket:
        self.sockets.send(b".")
        _, handles, _, _ = socket.recv_fds(self.sockets, 1, 1)
        client = socket.socket(fileno=handles[0])
        client.settimeout(120)
        wait_for(lambda: client.connect_ex(("127.0.0.1", 3128)) == 0)
        return client

    def ask(self, sent: bytes) -> bytes:
        with self.connect() as client:
            client.sendall(sent)
            client.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: client.recv(65536), b""))

    def close(self) -> None:
        self.sockets.close()
        self.control.close()
        assert (self.process.wait(120), self.maker.wait(120)) == (0, 0)
        self.gateway.close()


@pytest.fixture
def build(command: list[str], short_path: Path) -> Iterator[Build]:
    need_root()
    made = Build(command, short_path)
    yield made
    made.close()


@pytest.mark.compiler
def test_connections_are_carried_both_ways(build: Build):
    assert build.ask(b"") == b""
    large = os.urandom(3_000_000)
    assert build.ask(large) == large[::-1]
    for _ in range(150):
        with build.connect() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # ends by a reset
            client.send(b"x" * 1000)
    assert build.ask(b"abc") == b"cba"


@pytest.mark.compiler
def test_more_connections_are_served_than_are_held_at_once(build: Build):
    clients = [build.connect() for _ in range(200)]
    try:
        # Two descriptors a connection, a few of its own.
        if "qemu" not in str(build.process.args):
            held = lambda: len(list(Path(f"/proc/{build.helper}/fd").iterdir()))  # noqa: E731
            wait_for(lambda: held() > 2 * 127)
            assert held() <= 2 * 128 + 8
        for number, client in enumerate(clients):
            client.sendall(b"ab%d" % number)
            client.shutdown(socket.SHUT_WR)
        for number, client in enumerate(clients):
            assert client.recv(64) == (b"ab%d" % number)[::-1]
    finally:
        for client in clients:
            client.close()


@pytest.mark.compiler
def test_connections_that_the_gateway_ends_take_no_room(build: Build, short_path: Path):
    (short_path / "gateway").unlink()
    held = []
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(short_path / "gateway"))
        server.listen()
        for _ in range(200):  # more than there is room for
            held.append(build.connect())
            server.accept()[0].close()
    for client in held:
        client.close()


@pytest.mark.compiler
def test_it_says_why_it_cannot_begin(command: list[str], tmp_path: Path):
    for arguments, code, words in (
        (["build", str(tmp_path)], 1, "nothing answers"),
        (["build", "s" * 200], 2, "too long"),
        ([], 2, "usage"),
    ):
        done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=120)
        assert (done.returncode, done.stdout) == (code, "") and words in done.stderr
