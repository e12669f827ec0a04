"""A server that misbehaves as told: raw HTTP/1.1 on loopback, so that it can say what no library would let it say."""

from __future__ import annotations

import contextlib
import fcntl
import re
import socket
import ssl
import struct
import termios
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Request:
    method: str
    path: str
    headers: dict[str, str]  # names in lower case
    connection: int

    @property
    def start(self) -> int | None:
        """The first byte of a ranged request."""
        match = re.match(r"bytes=(\d+)-", self.headers.get("range", ""))
        return int(match[1]) if match else None


@dataclass
class Reply:
    """`body` is what is sent, whatever the headers promise; afterwards the connection is kept, closed or reset.

    `after` is called when the body has been sent; where it returns, the connection ends as `end` says.
    """

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    end: str = "keep"  # keep, close, reset
    after: Callable[[], object] = lambda: None
    piece: int = 0  # bytes of the body that are sent at once, all of them if 0
    pause: Callable[[], object] = lambda: None  # called before each piece


Behaviour = Callable[[Request], Reply]


def whole(content: bytes, **headers: str) -> Behaviour:
    """A good server: the file, or the part that is asked for."""

    def reply(request: Request) -> Reply:
        if request.start is None:
            return Reply(200, {"Content-Length": str(len(content)), **headers}, content)
        if request.start >= len(content):
            return Reply(416, {"Content-Range": f"bytes */{len(content)}", "Content-Length": "0"})
        part = content[request.start :]
        place = f"bytes {request.start}-{len(content) - 1}/{len(content)}"
        return Reply(206, {"Content-Length": str(len(part)), "Content-Range": place, **headers}, part)

    return reply


def status(code: int, **headers: str) -> Behaviour:
    return lambda request: Reply(code, {"Content-Length": "2", **headers}, b"no")


def cut(content: bytes, at: int, end: str = "reset", **headers: str) -> Behaviour:
    """As `whole`, but no more than `at` bytes of each body come."""

    def reply(request: Request) -> Reply:
        good = whole(content, **headers)(request)
        return Reply(good.status, good.headers, good.body[:at], end)

    return reply


class Server:
    """`paths` says for each path what its first, second, ... request gets; the last goes on for ever."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.tls = tls
        self.paths: dict[str, list[Behaviour]] = {}
        self.requests: dict[str, list[Request]] = defaultdict(list)
        self.connections = 0
        self.closing = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def url(self, path: str, *behaviours: Behaviour) -> str:
        """The address of `path`, which behaves so from now on."""
        if behaviours:
            self.paths[path] = list(behaviours)
        return f"https://localhost:{self.port}{path}" if self.tls else f"http://127.0.0.1:{self.port}{path}"

    def close(self) -> None:
        self.closing.set()
        for one in (self._listener, *self._open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        while not self.closing.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.connections += 1
            self._open.append(connection)
            threading.Thread(target=self._serve, args=(connection, self.connections), daemon=True).start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        try:
            if self.tls:
                connection = self.tls.wrap_socket(connection, server_side=True)
            with connection, connection.makefile("rb") as stream:
                while (request := _read(stream, number)) is not None:
                    if not self._answer(connection, request):
                        return
        except OSError:
            pass

    def _answer(self, connection: socket.socket, request: Request) -> bool:
        with self._lock:
            asked = self.requests[request.path]
            behaviours = self.paths.get(request.path, [status(404)])
            behaviour = behaviours[min(len(asked), len(behaviours) - 1)]
            asked.append(request)
        reply = behaviour(request)
        head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in reply.headers.items())
        connection.sendall(f"HTTP/1.1 {reply.status} Told\r\n{head}\r\n".encode())
        if request.method == "HEAD":
            return True
        piece = reply.piece or len(reply.body) or 1
        for at in range(0, len(reply.body), piece):
            reply.pause()
            connection.sendall(reply.body[at : at + piece])
        reply.after()
        if reply.end == "reset":
            while struct.unpack("i", fcntl.ioctl(connection, termios.TIOCOUTQ, b"\0" * 4))[0]:
                time.sleep(0.001)  # a reset takes along what the other side has not acknowledged
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return reply.end == "keep"


def _read(stream: object, number: int) -> Request | None:
    line = stream.readline().decode("latin-1")  # type: ignore[attr-defined]
    if not line.strip():
        return None
    method, path, _ = line.split(" ", 2)
    headers = {}
    while (line := stream.readline().decode("latin-1").strip()) != "":  # type: ignore[attr-defined]
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    return Request(method, path, headers, number)
