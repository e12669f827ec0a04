"""The helper program: the committed binaries are builds of the source, and each build behaves."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from reprokit.errors import EngineError
from reprokit.helper.program import program
from tests.support.ports import free_port
from tests.support.waiting import wait_for

# Compiler and emulator.
TOOLS = {"amd64": ("x86_64-linux-gnu-gcc", "qemu-x86_64"), "arm64": ("aarch64-linux-gnu-gcc", "qemu-aarch64")}
NATIVE = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine)
# As process 1 of a PID namespace, which gets no signal that it does not read.
PROCESS_1 = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child"]


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


class Forwarder:
    def __init__(self, command: list[str], path: Path) -> None:
        self.port = free_port()
        self.process = subprocess.Popen(
            [*command, "forward", str(self.port), str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self.process.stdout is not None and self.process.stdout.readline() == b"listening\n"

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), 120)

    def ask(self, sent: bytes) -> bytes:
        with self.connect() as client:
            client.sendall(sent)
            client.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: client.recv(65536), b""))


@pytest.fixture
def reversing() -> Iterator[Path]:
    # A socket's path has room for 107 characters; pytest's own folders are longer.
    with tempfile.TemporaryDirectory(prefix="reprokit-", dir="/tmp") as folder:
        path = Path(folder) / "s"
        with Reversing(path).listening:
            yield path


@pytest.fixture
def forwarder(command: list[str], reversing: Path) -> Iterator[Forwarder]:
    made = Forwarder(command, reversing)
    yield made
    made.process.terminate()
    assert made.process.wait(120) == 0


@pytest.mark.compiler
def test_forward_carries_both_ways_until_its_standard_input_ends(forwarder: Forwarder):
    assert forwarder.ask(b"") == b""
    large = os.urandom(3_000_000)
    assert forwarder.ask(large) == large[::-1]
    for _ in range(150):
        with forwarder.connect() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # ends by a reset
            client.send(b"x" * 1000)
    assert forwarder.process.stdin is not None
    forwarder.process.stdin.write(b"ignored")
    forwarder.process.stdin.flush()
    assert forwarder.ask(b"abc") == b"cba"
    forwarder.process.stdin.close()
    assert forwarder.process.wait(120) == 0


@pytest.mark.compiler
def test_forward_serves_more_connections_than_it_holds_at_once(forwarder: Forwarder):
    clients = [forwarder.connect() for _ in range(200)]
    try:
        # Two descriptors a connection, a few of its own.
        if "qemu" not in str(forwarder.process.args):
            held = lambda: len(list(Path(f"/proc/{forwarder.process.pid}/fd").iterdir()))  # noqa: E731
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
def test_forward_drops_what_the_other_end_has_closed(command: list[str], tmp_path: Path):
    with tempfile.TemporaryDirectory(prefix="reprokit-", dir="/tmp") as folder, socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{folder}/s")
        server.listen(200)
        forwarder = Forwarder(command, Path(folder) / "s")
        server.accept()[0].close()  # its first, to see whether anybody answers
        held = []
        try:
            for _ in range(200):  # more than it has room for
                held.append(forwarder.connect())
                server.accept()[0].close()
        finally:
            for client in held:
                client.close()
            forwarder.process.terminate()


@pytest.mark.compiler
def test_forward_says_why_it_cannot(command: list[str], tmp_path: Path):
    port = str(free_port())
    for arguments, code, words in (
        (["forward", port, str(tmp_path / "none")], 1, "nothing answers at the socket"),
        (["forward", "0", "s"], 2, "not a port"),
        (["forward", "99999999999", "s"], 2, "not a port"),
        (["forward", port, "s" * 200], 2, "too long"),
        ([], 2, "usage"),
    ):
        done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=120)
        assert (done.returncode, done.stdout) == (code, "") and words in done.stderr
