"""A bundle's tar, read without trusting it.

A bundle has one form only: regular files with the names that a bundle can have, each header the one that its name and
size give, zeros for padding, the end mark, and nothing after it. So every byte is either content, which a digest
covers, or known beforehand, and no name can lead out of a folder.
"""

from __future__ import annotations

import os
import re
import tarfile
from dataclasses import dataclass
from typing import NoReturn

from reprokit.bundle.model import METADATA, SIGNATURE
from reprokit.errors import UsageError
from reprokit.oci.layout import END, header
from reprokit.oci.model import BLOBS, DOCKER_MANIFEST, INDEX, OCI_LAYOUT

_NAME = re.compile(
    rf"{BLOBS}[0-9a-f]{{64}}|(?:workspaces|sbom)/[A-Za-z0-9][A-Za-z0-9._-]*"
    rf"|{'|'.join(map(re.escape, (OCI_LAYOUT, INDEX, DOCKER_MANIFEST, METADATA, SIGNATURE)))}"
)
_ZSTD = b"\x28\xb5\x2f\xfd"
# 127 layers an image is Docker's limit; locks name some thousand files.
_MOST_MEMBERS = 1 << 16
_MOST_SIZE = 1 << 44


@dataclass(frozen=True)
class Member:
    """A file of the bundle; `offset` and `size` of its content in bytes."""

    path: str
    offset: int
    size: int


def scan(descriptor: int, where: str) -> dict[str, Member]:
    """All members of an open bundle, by path. Raises UsageError naming `where` for anything else than a bundle."""
    total = os.fstat(descriptor).st_size
    found: dict[str, Member] = {}
    at = 0
    while (first := os.pread(descriptor, tarfile.BLOCKSIZE, at)).strip(b"\0"):
        path, size = _parsed(first, at, where)
        expected = header(path, size)
        if os.pread(descriptor, len(expected), at) != expected:
            refuse(f"{path}: its header is damaged", where)
        if path in found:
            refuse(f"{path} occurs twice", where)
        member = Member(path, at + len(expected), size)
        at = member.offset + size
        filling = -size % tarfile.BLOCKSIZE
        if at + filling + len(END) > total:
            refuse(f"{path}: the bundle is cut off there", where)
        if any(os.pread(descriptor, filling, at)):
            refuse(f"{path}: its padding is damaged", where)
        at += filling
        found[path] = member
        if len(found) > _MOST_MEMBERS:
            refuse(f"more than {_MOST_MEMBERS} files", where)
    if not found:
        refuse("not a bundle of `reprokit export`", where)
    if os.pread(descriptor, len(END) + 1, at) != END:
        refuse("the bundle is cut off at its end, or followed by other data", where)
    return found


def _parsed(block: bytes, at: int, where: str) -> tuple[str, int]:
    """The name and size that a header claims; the caller compares the whole header."""
    if not at and block.startswith(_ZSTD):
        hint = "make a new one: `reprokit store export NAME -o FILE.rkit`"
        raise UsageError("an archive of an older `reprokit store export`", where, hint)
    try:
        info = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        refuse("not a bundle of `reprokit export`" if not at else f"damaged or cut off at byte {at}", where)
    if not _NAME.fullmatch(info.name):
        refuse(f"{info.name!r}: no such file can be in a bundle", where)
    if not 0 <= info.size <= _MOST_SIZE:
        refuse(f"{info.name}: a file cannot have {info.size} bytes", where)
    return info.name, info.size


def refuse(why: str, where: str) -> NoReturn:
    raise UsageError(why, where, "nothing was loaded; copy the file again, or repeat `reprokit export`")
