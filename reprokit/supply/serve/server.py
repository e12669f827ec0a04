"""An HTTP server with limits: on the number of connections, and on their time until they are authenticated."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedIOBase

# Authenticated connections: as many as the helper of a closed network forwards at once.
CONNECTIONS = 128
# Unauthenticated ones. A new one replaces the oldest, so that others cannot block a build by holding connections.
PENDING = 32
PENDING_S = 20.0
# Bytes of headers in one request. The library limits the first line.
HEADERS = 32 << 10


class LimitedServer(ThreadingHTTPServer):
    """Serves connections of `listening`, a socket of any family."""

    daemon_threads = True
    block_on_close = False  # idle connections would never end

    def __init__(self, listening: socket.socket, handler: type[LimitedHandler]) -> None:
        super().__init__(("", 0), handler, bind_and_activate=False)
        self.socket.close()  # unused
        self.socket = listening
        if listening.family == socket.AF_INET:
            # Its connections inherit it: an answer is two writes, and the second would wait 40 ms.
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._lock = threading.Lock()
        self._open: set[object] = set()
        # Unauthenticated connections, the oldest first, with their deadlines.
        self._pending: dict[object, float] = {}

    def process_request(self, request, client_address) -> None:  # type: ignore[no-untyped-def]
        with self._lock:
            # Dropped connections stay open until their threads notice.
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
        """Count a connection as authenticated. False if there are too many."""
        with self._lock:
            self._pending.pop(request, None)
            return len(self._open) - len(self._pending) <= CONNECTIONS

    def service_actions(self) -> None:
        """Called regularly by `serve_forever`."""
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
        """Print no traceback for a client that disconnects."""


def _drop(request) -> None:  # type: ignore[no-untyped-def]
    """End a connection; its thread then stops."""
    with contextlib.suppress(OSError):
        request.shutdown(socket.SHUT_RDWR)


class LimitedHandler(BaseHTTPRequestHandler):
    """Requests with a limit on all headers together."""

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
