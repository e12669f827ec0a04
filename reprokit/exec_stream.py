"""Input and output of a command in a container, over the connection that the engine answered on."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any


class Connection:
    """Input and output of one command in a container.

    Read through the HTTP reader's own buffer: docker-py's stream helpers read the socket below it, and lose the first
    frame when it arrives in one piece with the headers.
    """

    def __init__(self, opened: Any, translated: Callable[[], AbstractContextManager[None]]) -> None:
        """Reading is done within `translated()`, which gives Docker's errors our names."""
        self._opened, self._translated = opened, translated
        self._socket = getattr(opened, "_sock", opened)
        self._socket.settimeout(None)
        self._reader = opened._response.raw._fp.fp

    def read(self) -> bytes:
        """What has come, at least a byte; nothing at the end. With a terminal this is the output itself."""
        with self._translated():
            return self._reader.read1(1 << 16)

    def frames(self) -> Iterator[tuple[bool, bytes]]:
        """Output without a terminal, as pairs of `is standard error` and data."""
        while True:
            with self._translated():
                header = self._reader.read(8)
                data = self._reader.read(int.from_bytes(header[4:], "big")) if len(header) == 8 else b""
            if not data:
                return
            yield header[0] == 2, data

    def write(self, data: bytes) -> None:
        self._socket.sendall(data)

    def fileno(self) -> int:
        """To wait for the first output of a command that had not started when this connection was made."""
        return int(self._socket.fileno())

    def end_input(self) -> None:
        """The command sees the end of its standard input."""
        self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._opened._response.close()
        self._opened.close()
