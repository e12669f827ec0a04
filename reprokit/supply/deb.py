"""What a Debian package says of itself: its control file (deb(5), deb-control(5))."""

from __future__ import annotations

import io
import lzma
import tarfile
import zlib
from pathlib import Path
from typing import IO

import zstandard

from reprokit.errors import SourceError

_AR_MAGIC = b"!<arch>\n"
_AR_HEADER = 60
_LARGEST_CONTROL = 64 << 20
_BROKEN = (
    OSError,
    ValueError,
    StopIteration,
    EOFError,
    tarfile.TarError,
    zlib.error,
    lzma.LZMAError,
    zstandard.ZstdError,
)


def control(path: Path) -> str:
    """The control file's stanza without the line break at its end. Raises SourceError where this is no such package."""
    try:
        with path.open("rb") as file:
            name, packed = _control_member(file)
        with tarfile.open(fileobj=io.BytesIO(_tar(name, packed)), mode="r:*") as tar:
            member = next(m for m in tar if m.name.removeprefix("./") == "control")
            text = tar.extractfile(member)
            if text is None:
                raise ValueError("its control file is none")
            return text.read().decode("utf-8", "replace").strip("\n")
    except _BROKEN as error:
        raise SourceError(f"not a Debian package: {error or 'it has no control file'}", str(path)) from None


def _control_member(file: IO[bytes]) -> tuple[str, bytes]:
    """Name and content of the archive's member `control.tar.*`."""
    if file.read(len(_AR_MAGIC)) != _AR_MAGIC:
        raise ValueError("it is no ar archive")
    while len(header := file.read(_AR_HEADER)) == _AR_HEADER:
        name, size = header[:16].decode("ascii").strip().rstrip("/"), int(header[48:58])
        if name.startswith("control.tar"):
            if size > _LARGEST_CONTROL:
                raise ValueError(f"its {name} has {size} bytes")
            return name, file.read(size)
        file.seek(size + size % 2, io.SEEK_CUR)
    raise ValueError("it has no control.tar")


def _tar(name: str, packed: bytes) -> bytes:
    # tarfile itself reads plain, gz and xz; zstd is what Ubuntu packs with since 21.10.
    if not name.endswith(".zst"):
        return packed
    with zstandard.ZstdDecompressor().stream_reader(packed) as reader:
        return reader.read(_LARGEST_CONTROL)
