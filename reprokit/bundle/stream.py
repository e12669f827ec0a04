"""A tar that comes as blocks of bytes, read once from the beginning to the end and never copied as a whole."""

from __future__ import annotations

import tarfile
from collections.abc import Iterable, Iterator

_BLOCK = 1 << 20


class Stream:
    """As much of a file as `tarfile` needs to read headers (`read`, `tell`, `seek` forward), over an iterator."""

    def __init__(self, blocks: Iterable[bytes]) -> None:
        self._blocks = iter(blocks)
        self._rest = memoryview(b"")
        self._position = 0

    def tell(self) -> int:
        return self._position

    def read(self, size: int) -> bytes:
        """Exactly `size` bytes, fewer only at the end."""
        return b"".join(self._some(size))

    def seek(self, position: int) -> int:
        """Forward to `position`, or to the end where that comes first."""
        for _ in self._some(position - self._position):
            pass
        return self._position

    def body(self, size: int) -> Iterator[bytes]:
        """The next `size` bytes in blocks of 1 MiB; ends early where the stream does."""
        while size:
            block = b"".join(self._some(min(size, _BLOCK)))
            if not block:
                return
            size -= len(block)
            yield block

    def _some(self, size: int) -> Iterator[memoryview]:
        while size > 0:
            if not self._rest:
                block = next(self._blocks, None)
                if block is None:
                    return
                self._rest = memoryview(block)
                continue
            piece, self._rest = self._rest[:size], self._rest[size:]
            self._position += len(piece)
            size -= len(piece)
            yield piece


def members(stream: Stream) -> Iterator[tarfile.TarInfo]:
    """The entries in order, for the caller to read their bodies before the next. Raises TarError, EOFError."""
    # The mode for seekable files: it skips with `seek`, where the one for streams copies every block three times.
    with tarfile.open(fileobj=stream, mode="r:") as tar:  # type: ignore[call-overload]
        while (member := tar.next()) is not None:
            tar.members.clear()  # of a million files they would fill the memory
            yield member
    # tarfile takes a damaged header for the end.
    while rest := stream.read(_BLOCK):
        if any(rest):
            raise EOFError("a header is damaged")
