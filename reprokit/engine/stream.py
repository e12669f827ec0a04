"""Input and output of a command in a container, over the connection that the engine answered on."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from typing import Any

from reprokit.engine.failures import translated


class CommandStream:
    """Input and output of one command.

    Reads go through the HTTP reader's own buffer. docker-py's stream helpers read the socket below it, and lose the
    first frame when that arrives in one piece with the headers.
    """

    def __init__(self, response_socket: Any) -> None:
        """`response_socket` is what docker-py returns for an attached or started command."""
        self._response_socket = response_socket
        self._socket = getattr(response_socket, "_sock", response_socket)
        self._socket.settimeout(None)
        self._reader = response_socket._response.raw._fp.fp

    def read(self) -> bytes:
        """Block for the next bytes; empty at the end. With a terminal these are the output itself."""
        with translated():
            return self._reader.read1(1 << 16)

    def frames(self) -> Iterator[tuple[bool, bytes]]:
        """Output without a terminal, as pairs of `is standard error` and data."""
        while True:
            with translated():
                header = self._reader.read(8)
                data = self._reader.read(int.from_bytes(header[4:], "big")) if len(header) == 8 else b""
            if not data:
                return
            yield header[0] == 2, data

    def write(self, data: bytes) -> None:
        self._socket.sendall(data)

    def fileno(self) -> int:
        """For `select`: readable when the first output arrives, if the command had not started before."""
        return int(self._socket.fileno())

    def end_input(self) -> None:
        """Close the command's standard input."""
        self._socket.shutdown(socket.SHUT_WR)

    def abort(self) -> None:
        """End a read that another thread waits in; the command goes on."""
        with contextlib.suppress(OSError):  # closed already
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._response_socket._response.close()
        self._response_socket.close()
