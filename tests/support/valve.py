"""A way to a server that lets so many bytes through until a test opens it."""

from __future__ import annotations

import contextlib
import socket
import threading


class Valve:
    """Passes connections at its `host` on to another address; all answers together have `limit` bytes until `open`."""

    def __init__(self, server: str, limit: int) -> None:
        self._server, self._left = server, limit
        self._opened, self._lock = threading.Event(), threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.host = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def open(self) -> None:
        self._opened.set()

    def close(self) -> None:
        self.open()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        address, port = self._server.split(":")
        with contextlib.suppress(OSError):
            while True:
                client = self._listener.accept()[0]
                server = socket.create_connection((address, int(port)))
                threading.Thread(target=self._copy, args=(client, server, False), daemon=True).start()
                threading.Thread(target=self._copy, args=(server, client, True), daemon=True).start()

    def _copy(self, source: socket.socket, sink: socket.socket, limited: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                with self._lock:
                    self._left -= len(data) if limited else 0
                    shut = limited and self._left < 0
                if shut:
                    self._opened.wait()
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
