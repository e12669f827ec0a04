"""A bundle's tar, taken apart without trusting it.

A bundle has one form only: regular files with the names that a bundle can have, each header the one that its name and
size give, zeros for padding, the end mark, and nothing behind it. So every byte is either content, which a digest
covers, or known beforehand, and no name can lead out of a folder.
"""

from __future__ import annotations

import os
import re
import tarfile
from dataclasses import dataclass
from typing import NoReturn

from reprokit.bundle.model import BLOBS, DOCKER_MANIFEST, INDEX, METADATA, OCI_LAYOUT, SIGNATURE
from reprokit.bundle.partial import header
from reprokit.errors import UsageError

_NAME = re.compile(
    rf"{BLOBS}[0-9a-f]{{64}}|(workspaces|store)/[A-Za-z0-9][A-Za-z0-9._-]*"
    rf"|{'|'.join(map(re.escape, (OCI_LAYOUT, INDEX, DOCKER_MANIFEST, METADATA, SIGNATURE)))}"
)
# 127 layers an image is Docker's limit.
_MOST_MEMBERS = 1 << 16
_MOST_SIZE = 1 << 44
END = 2 * tarfile.BLOCKSIZE


@dataclass(frozen=True)
class Member:
    """A file of the bundle; `offset` and `size` of its content in bytes."""

    path: str
    offset: int
    size: int


def scan(descriptor: int, where: str) -> dict[str, Member]:
    """All members of an open bundle, by path. Raises UsageError naming `where` for whatever is not as written."""
    total = os.fstat(descriptor).st_size
    found: dict[str, Member] = {}
    at = 0
    while (first := os.pread(descriptor, tarfile.BLOCKSIZE, at)).strip(b"\0"):
        path, size = _parsed(first, at, where)
        expected = header(path, size)
        if os.pread(descriptor, len(expected), at) != expected:
            refuse(f"{path}: its header is not as reprokit writes it", where)
        if path in found:
            refuse(f"{path} is in it twice", where)
        member = Member(path, at + len(expected), size)
        at = member.offset + size
        filling = -size % tarfile.BLOCKSIZE
        if at + filling + END > total:
            refuse(f"{path}: the file is cut off there", where)
        if any(os.pread(descriptor, filling, at)):
            refuse(f"{path}: something stands behind it that belongs to no file", where)
        at += filling
        found[path] = member
        if len(found) > _MOST_MEMBERS:
            refuse(f"it has more than {_MOST_MEMBERS} files", where)
    if not found:
        refuse("this is no bundle of `reprokit export`", where)
    if os.pread(descriptor, END + 1, at) != bytes(END):
        refuse("the file is cut off at its end, or something stands behind it", where)
    return found


def _parsed(block: bytes, at: int, where: str) -> tuple[str, int]:
    """The name and size that a header claims; the caller compares it with what they give."""
    try:
        info = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        refuse("this is no bundle of `reprokit export`" if not at else f"damaged or cut off at byte {at}", where)
    if not _NAME.fullmatch(info.name):
        refuse(f"{info.name!r} is no name of a file in a bundle", where)
    if not 0 <= info.size <= _MOST_SIZE:
        refuse(f"{info.name}: a file cannot have {info.size} bytes", where)
    return info.name, info.size


def refuse(why: str, where: str) -> NoReturn:
    raise UsageError(why, where, "nothing of it was taken; copy it again, or export it again")
