"""An HTTP server of few threads: its connections are bounded in number and, until they are authenticated, in time."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedIOBase

# Authenticated ones: as many as the helper program of a closed network carries at once.
CONNECTIONS = 128
# Others: for a new one the oldest is dropped, so that strangers cannot keep a build away by holding them.
PENDING = 32
PENDING_S = 20.0
# Of one request, its first line apart, which the library bounds. In bytes.
HEADERS = 32 << 10


class Server(ThreadingHTTPServer):
    """Serves what arrives at `listening`, a socket of any family, with handlers that are `Handler`s."""

    daemon_threads = True
    block_on_close = False  # connections that are kept alive have no end of their own

    def __init__(self, listening: socket.socket, handler: type[Handler]) -> None:
        super().__init__(("", 0), handler, bind_and_activate=False)
        self.socket.close()  # one that nothing has been done with
        self.socket = listening
        if listening.family == socket.AF_INET:
            # Inherited by its connections: an answer is two writes, and the second would wait 40 ms.
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._lock = threading.Lock()
        self._open: set[object] = set()
        # Those that are not authenticated, the oldest first, and when their time is up.
        self._pending: dict[object, float] = {}

    def process_request(self, request, client_address) -> None:  # type: ignore[no-untyped-def]
        with self._lock:
            # Dropped ones are open until their threads have noticed.
            full = len(self._open) >= CONNECTIONS + 2 * PENDING
            if not full:
                self._open.add(request)
                if len(self._pending) >= PENDING:
                    self._drop_oldest()
                self._pending[request] = time.monotonic() + PENDING_S
        if full:
            self.shutdown_request(request)
        else:
            super().process_request(request, client_address)

    def shutdown_request(self, request) -> None:  # type: ignore[no-untyped-def]
        with self._lock:
            self._open.discard(request)
            self._pending.pop(request, None)
        super().shutdown_request(request)

    def admit(self, request: object) -> bool:
        """Take a connection for authenticated. False where there are too many."""
        with self._lock:
            self._pending.pop(request, None)
            return len(self._open) - len(self._pending) <= CONNECTIONS

    def service_actions(self) -> None:
        """Called by `serve_forever` at each of its turns."""
        now = time.monotonic()
        with self._lock:
            while self._pending and next(iter(self._pending.values())) < now:
                self._drop_oldest()

    def server_close(self) -> None:
        super().server_close()
        with self._lock:
            for request in self._open:
                _drop(request)

    def _drop_oldest(self) -> None:
        oldest = next(iter(self._pending))
        del self._pending[oldest]
        _drop(oldest)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away is not worth a traceback on the user's terminal."""


def _drop(request) -> None:  # type: ignore[no-untyped-def]
    """End a connection; its thread finds it ended."""
    with contextlib.suppress(OSError):
        request.shutdown(socket.SHUT_RDWR)


class Handler(BaseHTTPRequestHandler):
    """Requests whose headers are bounded together."""

    protocol_version = "HTTP/1.1"
    timeout = 300

    def parse_request(self) -> bool:
        unbounded = self.rfile
        self.rfile = _Bounded(unbounded)
        try:
            return super().parse_request()
        finally:
            self.rfile = unbounded

    def log_message(self, format: str, *args: object) -> None:
        """Requests are counted, not printed."""


class _Bounded(BufferedIOBase):
    """The lines of a request's headers."""

    def __init__(self, lines: BufferedIOBase) -> None:
        self._lines, self._left = lines, HEADERS

    def readline(self, limit: int | None = -1, /) -> bytes:
        line = self._lines.readline(self._left + 1)
        self._left -= len(line)
        if self._left < 0:
            raise http.client.HTTPException(f"more than {HEADERS} bytes of headers")
        return line
