"""What a Debian package says of itself: its control file (deb(5), deb-control(5))."""

from __future__ import annotations

import io
import lzma
import re
import tarfile
import zlib
from pathlib import Path
from typing import IO

import zstandard

from reprokit.errors import SourceError
from reprokit.untrusted.limits import CONTROL
from reprokit.untrusted.tar import Stream, members

_AR_MAGIC = b"!<arch>\n"
_AR_HEADER = 60
_XZ_MEMORY = 128 << 20  # `xz -9` needs 65 MB
_BROKEN = (OSError, ValueError, EOFError, tarfile.TarError, zlib.error, lzma.LZMAError, zstandard.ZstdError)


def control(path: Path) -> str:
    """The control file's stanza without the line break at its end.

    Raises SourceError where this is no such package, UsageError where it is beyond a limit.
    """
    try:
        with path.open("rb") as file:
            name, packed = _control_member(file, str(path))
        unpacked = _tar(name, packed)
        CONTROL.check(len(unpacked), f"bytes in {name}, unpacked", str(path))
        stream = Stream([unpacked])
        for member in members(stream, str(path)):
            if member.isreg() and member.name.removeprefix("./") == "control":
                return stream.read(member.size).decode("utf-8", "replace").strip("\n")
        raise ValueError("it has no control file")
    except _BROKEN as error:
        raise SourceError(f"not a Debian package: {error}", str(path)) from None


def _control_member(file: IO[bytes], where: str) -> tuple[str, bytes]:
    """Name and content of the archive's member `control.tar.*`."""
    if file.read(len(_AR_MAGIC)) != _AR_MAGIC:
        raise ValueError("it is no ar archive")
    while len(header := file.read(_AR_HEADER)) == _AR_HEADER:
        if not re.fullmatch(rb"\d+ *", header[48:58]):
            raise ValueError("a member of it has no size")
        name, size = header[:16].decode("ascii").strip().rstrip("/"), int(header[48:58])
        if name.startswith("control.tar"):
            CONTROL.check(size, f"bytes in {name}", where)
            return name, file.read(size)
        file.seek(size + size % 2, io.SEEK_CUR)
    raise ValueError("it has no control.tar")


def _tar(name: str, packed: bytes) -> bytes:
    """At most one byte beyond the limit."""
    most = CONTROL.most + 1
    if name.endswith(".zst"):
        with zstandard.ZstdDecompressor().stream_reader(packed) as reader:
            return reader.read(most)
    if name.endswith(".gz"):
        return zlib.decompressobj(wbits=31).decompress(packed, most)
    if name.endswith(".xz"):
        return lzma.LZMADecompressor(memlimit=_XZ_MEMORY).decompress(packed, most)
    return packed
