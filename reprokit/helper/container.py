"""A container in which the steps of a build run one after another, without a network.

Its process 1 is the helper program, mounted below /dev, where nothing of it enters a layer. It connects to a socket of
this process and executes requests: run a step, make files, inspect a path. It kills the processes that a step leaves,
so that no program of the image runs between two requests. `127.0.0.1:3128` inside leads to a gateway's socket, and
nothing else leads out.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import stat
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from reprokit.engine import Engine
from reprokit.errors import EngineError, ReprokitError
from reprokit.helper.program import program

# The usual port of HTTP proxies. It is constant, as each container has its own loopback.
ADDRESS = ("127.0.0.1", 3128)
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"  # for images without one
NAME = "reprokit-build-"
_FOLDER = "/dev/reprokit"
_READY_S = 60
_BACKLOG = 128
_MOST_PROCESSES = 4096
_LONGEST = 4 << 20  # bytes of a message, as in helper.c
_BLOCK = 1 << 20
_HEADER = struct.Struct("<cI")
_ENTRY = struct.Struct("<6Iq")
_STATUS = struct.Struct("<i3IQqI")


@dataclass(frozen=True)
class Command:
    """A program and its arguments, its complete environment, folder and user."""

    arguments: Sequence[str]
    environment: Mapping[str, str]
    folder: str = "/"
    user: int = 0
    group: int = 0
    groups: Sequence[int] = ()


@dataclass(frozen=True)
class Entry:
    """A path to make in a container: `kind` is a type of `stat` (S_IFREG, S_IFDIR, S_IFLNK, ...).

    `mode` has the permissions only, `target` is a symbolic link's text, or the path that a hard link repeats, `content`
    a file's blocks. `modified` is in nanoseconds.
    """

    path: str
    kind: int
    mode: int = 0o644
    user: int = 0
    group: int = 0
    modified: int = 0
    target: str = ""
    hard: bool = False
    device: tuple[int, int] = (0, 0)
    attributes: Mapping[str, bytes] = field(default_factory=dict)
    content: Iterator[bytes] | None = None


@dataclass(frozen=True)
class Status:
    """The status of a path: `mode` with its type, owner, size, and the time of its last change in nanoseconds."""

    mode: int
    user: int
    group: int
    size: int
    modified: int

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.mode)


@contextmanager
def listening() -> Iterator[tuple[Path, socket.socket]]:
    """A socket and its path, in a folder that keeps other users of this host out.

    In the container everyone may connect, so that the helper needs no rights, however the engine maps user ids.
    """
    with TemporaryDirectory(prefix="reprokit-build-") as folder, closing(socket.socket(socket.AF_UNIX)) as made:
        handle = os.open(folder, os.O_PATH)
        try:
            made.bind(f"/proc/self/fd/{handle}/socket")  # $TMPDIR may be longer than the 107 bytes of an address
        finally:
            os.close(handle)
        path = Path(folder) / "socket"
        path.chmod(0o666)
        made.listen(_BACKLOG)
        yield path, made


class BuildContainer:
    """Use `build_container`. Every call raises EngineError if the container has ended."""

    def __init__(self, engine: Engine, name: str, connection: socket.socket) -> None:
        self.engine, self.name = engine, name
        self._connection = connection
        self._sent: list[str] = []  # the paths of the requests since the last `check`

    def run(
        self, command: Command, output: Callable[[bytes], None], errors: Callable[[bytes], None] | None = None
    ) -> int:
        """Run a step; returns its exit code, 128 + N for a signal.

        `output` gets standard output and errors in their order, without these if `errors` gets them.
        """
        strings = [command.folder, *command.arguments, *(f"{k}={v}" for k, v in command.environment.items())]
        counts = [len(command.groups), len(command.arguments), len(command.environment), errors is not None]
        numbers = struct.pack(f"<6I{len(command.groups)}I", command.user, command.group, *counts, *command.groups)
        self._send(b"R", numbers + b"".join(map(_text, strings)))
        while True:
            kind, content = self._receive()
            if kind == b"o":
                output(content)
            elif kind == b"x" and errors:
                errors(content)
            elif kind == b"e":
                code = os.waitstatus_to_exitcode(int.from_bytes(content, "little"))
                return code if code >= 0 else 128 - code

    def status(self, path: str, follow: bool = True) -> Status | None:
        """The status of a path, None if it does not exist. A link in its last part is followed only with `follow`."""
        self._send(b"S" if follow else b"s", path.encode("utf-8", "surrogateescape"))
        content = self._answer(b"s")
        if len(content) != _STATUS.size:
            raise EngineError("the build's container sent an invalid answer", self.name)
        error, mode, user, group, size, seconds, nanoseconds = _STATUS.unpack(content)
        return None if error else Status(mode, user, group, size, seconds * 10**9 + nanoseconds)

    def read(self, path: str) -> bytes | None:
        """A regular file of at most 4 MiB; None if there is no such file."""
        self._send(b"G", path.encode("utf-8", "surrogateescape"))
        content = self._answer(b"g")
        return None if int.from_bytes(content[:4], "little") else content[4:]

    def make(self, entry: Entry) -> None:
        """Make a path with its attributes; `check` reports failures.

        A file replaces another one. A folder that exists stays, also one behind a link. Folders need `settle` once
        their content is made, as that changes their times.
        """
        if entry.hard:
            self._change(b"H", entry.path, _request(entry) + _text(entry.target))
            return
        requests = {stat.S_IFDIR: b"D", stat.S_IFREG: b"F", stat.S_IFLNK: b"L"}
        target = _text(entry.target) if entry.kind == stat.S_IFLNK else b""
        self._change(requests.get(entry.kind, b"N"), entry.path, _request(entry) + target)
        for block in entry.content or ():
            for at in range(0, len(block), _BLOCK):
                self._change(b"W", entry.path, block[at : at + _BLOCK])
        if entry.kind != stat.S_IFDIR:
            self.settle(entry)

    def settle(self, entry: Entry) -> None:
        """Give a path its owner, mode, attributes and time; a link that stands for a folder keeps its own."""
        self._change(b"A", entry.path, _request(entry))
        for name, value in entry.attributes.items():
            self._change(b"X", entry.path, _request(entry) + _text(name) + value)

    def remove(self, path: str) -> None:
        """Remove a file, a link or an empty folder, if it exists; `check` reports failures."""
        self._change(b"U", path, _ENTRY.pack(*[0] * 7) + _text(path))

    def check(self) -> None:
        """Wait until all is done. Raises EngineError with the first path that could not be made or removed."""
        self._send(b"Y")
        number, error = struct.unpack("<2I", self._answer(b"y"))
        sent, self._sent = self._sent, []
        if number:
            raise EngineError(f"cannot write {sent[number - 1]} in the image: {os.strerror(error)}", self.name)

    def abort(self) -> None:
        """End the container while another thread waits for it."""
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def _change(self, kind: bytes, path: str, request: bytes) -> None:
        self._sent.append(path)
        self._send(kind, request)

    def _send(self, kind: bytes, content: bytes = b"") -> None:
        if len(content) > _LONGEST:
            raise EngineError(f"{len(content)} bytes are too many for one request to a container", self.name)
        try:
            self._connection.sendall(_HEADER.pack(kind, len(content)) + content)
        except OSError:
            raise self._ended() from None

    def _answer(self, kind: bytes) -> bytes:
        received, content = self._receive()
        if received != kind:
            raise EngineError("the build's container sent an invalid answer", self.name)
        return content

    def _receive(self) -> tuple[bytes, bytes]:
        kind, size = _HEADER.unpack(self._exactly(_HEADER.size))
        if size > _LONGEST:
            raise EngineError("the build's container sent an invalid answer", self.name)
        return kind, self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        content = bytearray()
        while len(content) < size:
            try:
                block = self._connection.recv(size - len(content))
            except OSError:
                block = b""
            if not block:
                raise self._ended()
            content += block
        return bytes(content)

    def _ended(self) -> EngineError:
        return EngineError("the build's container has ended", self.name, "the engine's own log may say why")


@contextmanager
def build_container(
    engine: Engine,
    image: str,
    gateway: Path | None = None,
    settings: Mapping[str, Any] | None = None,
    mounts: Sequence[Mapping[str, Any]] = (),
) -> Iterator[BuildContainer]:
    """A container of an image, which ends with the context or with this process.

    `gateway` is the path of a gateway's socket, `settings` are more entries of the API's `HostConfig`, `mounts` of its
    `Mounts`. Raises EngineError.
    """
    name = NAME + secrets.token_hex(6)
    with listening() as (path, control):
        sockets = {"control": str(path), **({"gateway": str(gateway)} if gateway else {})}
        helper = program(engine.version().architecture)
        own = {"helper": str(helper), **sockets}
        engine.create_container(name, _configuration(image, own, settings or {}, mounts))
        with ExitStack() as stack:
            stack.callback(_remove, engine, name)
            engine.start(name)
            yield BuildContainer(engine, name, stack.enter_context(closing(_connected(engine, name, control))))


def _remove(engine: Engine, name: str) -> None:
    """Remove the container, and wait until it is gone: it ends with its connection, and the engine then removes it."""
    deadline = time.monotonic() + _READY_S
    with suppress(ReprokitError):
        engine.remove(name, force=True)
    with suppress(ReprokitError):
        while engine.container(name) and time.monotonic() < deadline:
            time.sleep(0.02)


def _connected(engine: Engine, name: str, control: socket.socket) -> socket.socket:
    """The helper's connection. Only the first one is accepted: a step could make others."""
    control.settimeout(1)
    deadline = time.monotonic() + _READY_S
    while time.monotonic() < deadline:
        with suppress(TimeoutError):
            connection, _ = control.accept()
            control.close()
            connection.settimeout(None)
            return connection
        container = engine.container(name)
        if container is None or not container.running:
            break
    raise EngineError("the build's container does not start", name, "the engine's own log may say why")


def _configuration(
    image: str, own: Mapping[str, str], settings: Mapping[str, Any], mounts: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Capabilities, seccomp and AppArmor are the engine's defaults, as in `docker build`: sudo works in steps."""
    host = {
        "NetworkMode": "none",
        "AutoRemove": True,
        "SecurityOpt": ["label=disable"],  # else SELinux refuses the sockets
        "PidsLimit": _MOST_PROCESSES,
        "LogConfig": {"Type": "none"},
        "Init": False,
        "Mounts": [
            {"Type": "bind", "Source": source, "Target": f"{_FOLDER}/{target}", "ReadOnly": True}
            for target, source in own.items()
        ]
        + list(mounts),
        # Programs look up the name of their host.
        "ExtraHosts": ["reprokit:127.0.0.1"],
        **settings,
    }
    return {
        "Image": image,
        "Hostname": "reprokit",
        "Entrypoint": [f"{_FOLDER}/helper"],
        "Cmd": ["build", _FOLDER],
        "User": "0:0",
        "WorkingDir": "/",
        "Healthcheck": {"Test": ["NONE"]},
        "StopSignal": str(int(signal.SIGTERM)),
        "HostConfig": host,
    }


def _request(entry: Entry) -> bytes:
    seconds, nanoseconds = divmod(entry.modified, 10**9)
    numbers = (entry.kind | entry.mode, entry.user, entry.group, *entry.device, nanoseconds, seconds)
    return _ENTRY.pack(*numbers) + _text(entry.path)


def _text(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape") + b"\0"
