"""Small inputs that grow."""

from __future__ import annotations

import tarfile
from pathlib import Path

import zstandard

from reprokit.oci.layout import END
from reprokit.untrusted import limits
from tests.support.made import Made

RLE = 128 << 10  # what a block of zstd holds at most, in four bytes
GIB = 1 << 30
UNPACK = """
from reprokit.bundle import read, workspaces
with read.opened(Path(sys.argv[1])) as bundle, workspaces.workspaces(bundle, True):
    pass
"""


def frame(*parts: bytes | int) -> bytes:
    """A zstd frame (RFC 8878) of `parts` in order; a number stands for that many zero bytes."""
    blocks = [b"\x28\xb5\x2f\xfd\x00\x38"]  # a window of 128 KiB, no checksum
    for part in parts:
        if isinstance(part, bytes):
            blocks.append((len(part) << 3).to_bytes(3, "little") + part)
        else:
            blocks += [(RLE << 3 | 2).to_bytes(3, "little") + b"\0"] * (part // RLE)
            blocks.append((part % RLE << 3 | 2).to_bytes(3, "little") + b"\0")
    return b"".join([*blocks, b"\x01\0\0"])


def entry(name: str = "x", size: int = 0, kind: bytes = tarfile.REGTYPE) -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.type = size, kind
    return info.tobuf(tarfile.GNU_FORMAT)


def refused(text: str, limit: limits.Limit) -> None:
    assert f"raise the limit: REPROKIT_LIMIT_{limit.name}=" in text
    assert text.count("error:") == 1


TARS = {
    "a PAX header": (frame(entry(size=6 * GIB, kind=tarfile.XHDTYPE), 6 * GIB), limits.TAR_HEADER),
    "a long name": (frame(entry(size=6 * GIB, kind=tarfile.GNUTYPE_LONGNAME), 6 * GIB), limits.TAR_HEADER),
    "a long link name": (frame(entry(size=6 * GIB, kind=tarfile.GNUTYPE_LONGLINK), 6 * GIB), limits.TAR_HEADER),
    "a global header": (frame(entry(size=6 * GIB, kind=tarfile.XGLTYPE), 6 * GIB), limits.TAR_HEADER),
    "headers in a row": (
        frame(entry(size=1 << 20, kind=tarfile.XGLTYPE), 1 << 20, entry(size=512, kind=tarfile.XHDTYPE), 1 << 20),
        limits.TAR_HEADER,
    ),
    "empty files": (zstandard.compress(entry() * 8192) * 256, limits.ENTRIES),
    "empty headers": (zstandard.compress(entry(kind=tarfile.XGLTYPE) * 8192) * 256, limits.ENTRIES),
    "zeros": (frame(entry(size=20 * GIB), 20 * GIB), limits.UNPACKED),
}  # fmt: skip


def a_bundle(path: Path, layer: bytes) -> Path:
    """Its only layer is this blob."""
    made = Made.of({"x/y:1": [path.name.encode()]}, pack=lambda content: layer)
    made.metadata["images"][0] |= {"size": min(20 * GIB, len(layer) * (1 << 15)), "packed": len(layer)}
    return made.write(path)


def empty(folder: Path) -> Path:
    return Made.of({"x/y:1": [END]}).write(folder / "empty.rkit")
