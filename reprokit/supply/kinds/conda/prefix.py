"""The path that a conda package was built for, replaced by the environment's."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from reprokit.supply.kinds.conda.archive import PackedFile

PLACE = "/opt/conda"
_NEW = PLACE.encode()
_ZEROS = bytes(1 << 16)
_LONGEST = 4096  # bytes of a path


@dataclass(frozen=True)
class Prefix:
    """The placeholder of a file. In a binary file, strings of C keep their length: zeros follow the shorter path."""

    placeholder: bytes
    binary: bool

    def __post_init__(self) -> None:
        if not len(_NEW) <= len(self.placeholder) <= _LONGEST:
            raise ValueError(f"a placeholder of {len(self.placeholder)} bytes is too short or too long")

    def measured(self, entry: PackedFile) -> tuple[int, str]:
        """Size and sha256 of the content with the path replaced."""
        size, digest = 0, hashlib.sha256()
        for piece in self.replaced(entry.blocks()):
            size += len(piece)
            digest.update(piece)
        return size, digest.hexdigest()

    def replaced(self, blocks: Iterable[bytes]) -> Iterator[bytes]:
        """The content with the path replaced, in pieces."""
        rest, short = b"", 0
        for block in chain(blocks, (b"",)):
            pieces = (rest + block).split(self.placeholder)
            # The beginning of a placeholder that the next block ends.
            kept = len(pieces[-1]) if not block else max(0, len(pieces[-1]) - len(self.placeholder) + 1)
            pieces[-1], rest = pieces[-1][:kept], pieces[-1][kept:]
            if not self.binary:
                yield _NEW.join(pieces)
                continue
            for number, piece in enumerate(pieces):
                if number:
                    yield _NEW
                    short += len(self.placeholder) - len(_NEW)
                if short and (end := piece.find(b"\0")) >= 0:
                    yield piece[:end]
                    yield from _zeros(short)
                    piece, short = piece[end:], 0
                yield piece
        yield from _zeros(short)


def _zeros(count: int) -> Iterator[bytes]:
    while count:
        piece = _ZEROS[:count]
        yield piece
        count -= len(piece)
