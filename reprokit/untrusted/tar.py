"""Read a tar as a stream, with limits.

tarfile reads extended headers of any size, in time that grows with the square of their size (CVE-2024-6232). So it
only parses single header blocks here.
"""

from __future__ import annotations

import math
import re
import tarfile
from collections.abc import Iterable, Iterator
from typing import IO

from reprokit.untrusted.limits import ENTRIES, TAR_HEADER, Limit

_BLOCK = 1 << 20
_LONG = (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)
_EXTENDED = (*_LONG, tarfile.XHDTYPE, tarfile.XGLTYPE)
_USTAR, _STAR, _GNU = b"ustar\0", b"tar\0", b"ustar  \0"
_OCTAL = re.compile(rb" *[0-7]*[ \0]*")
_LENGTH = 20  # digits
_LONGEST_PATH = 4096  # Linux's PATH_MAX


class Stream:
    """A file over an iterator of blocks, which is only read forward."""

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
        """Forward to `position`, or to the end if that comes first."""
        for _ in self._some(position - self._position):
            pass
        return self._position

    def body(self, size: int) -> Iterator[bytes]:
        """The next `size` bytes in blocks of 1 MiB; fewer if the stream ends."""
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


def members(stream: Stream | IO[bytes], where: str = "", limit: Limit = ENTRIES) -> Iterator[tarfile.TarInfo]:
    """The entries of a stream or an open file. The caller reads an entry's body before the next entry.

    Global headers are ignored, as in engines. Sparse files are refused, and headers that engines, GNU tar and Python
    read differently. Raises TarError and EOFError if the tar is damaged, UsageError naming `where` beyond a limit.
    """
    count, extended, most = 0, 0, limit.most
    records, seen = dict[str, str](), set[bytes]()
    while first := stream.read(tarfile.BLOCKSIZE):
        if not any(first):
            break
        member = _header(first)
        count += 1
        if count > most:
            limit.check(count, "entries in a tar", where)
        if member.size < 0:
            raise tarfile.ReadError("an entry has a negative size")
        if member.type in _EXTENDED:
            extended += member.size
            TAR_HEADER.check(extended, "bytes of extended headers for one entry of a tar", where)
            content = stream.read(_padded(member.size))[: member.size]
            added: dict[str, str] = {}
            if member.type in _LONG:
                name = content.partition(b"\0")[0].decode("utf-8", "surrogateescape")
                added = {"path" if member.type == tarfile.GNUTYPE_LONGNAME else "linkpath": name}
            elif member.type == tarfile.XHDTYPE:
                added = _records(content)
            is_global = member.type == tarfile.XGLTYPE
            empty = "" in (added.get("path"), added.get("linkpath"))  # Go ignores empty ones
            if empty or member.type in seen or (seen and is_global) or records.keys() & added.keys():
                raise tarfile.ReadError("an extended header that readers understand differently")
            seen |= set() if is_global else {member.type}
            records |= added
            continue
        if member.type == tarfile.SOLARIS_XHDTYPE:
            raise tarfile.ReadError("an extended header of Solaris")
        if member.type == tarfile.GNUTYPE_SPARSE or any(key.startswith("GNU.sparse") for key in records):
            raise tarfile.ReadError(f"{member.name!r} is a sparse file")
        if records:
            _apply(records, member)
        # Python decides by the name in an old header whether it is a folder, engines by the extended one.
        old = first[156:157] == tarfile.AREGTYPE and "path" in records
        if old and member.isdir() != records["path"].endswith("/"):
            raise tarfile.ReadError(f"{member.name!r} is a file or a folder, as readers understand it")
        extended, records, seen = 0, {}, set()
        end = stream.tell() + (_padded(member.size) if _has_body(member) else 0)
        yield member
        if stream.seek(end) != end:
            raise tarfile.ReadError("unexpected end of data")
    else:
        if not stream.tell():
            raise tarfile.ReadError("empty file")
    while trailing := stream.read(_BLOCK):
        if any(trailing):
            raise EOFError("a header is damaged")


def _header(block: bytes) -> tarfile.TarInfo:
    """Parse one header block. Python joins a prefix to the name, which only ustar has; undo it for other formats."""
    member = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    if block[257:263] != _USTAR:
        name = block[:100].partition(b"\0")[0].decode("utf-8", "surrogateescape")
        member.name = name.rstrip("/") if member.isdir() else name
    elif block[508:512] == _STAR:
        raise tarfile.ReadError(f"{member.name!r} has the header of another format, star")
    # Engines read times that are not numbers as a prefix, which Go before 1.8 wrote.
    if block[257:265] == _GNU and not all(_OCTAL.fullmatch(block[at : at + 12]) for at in (345, 357)):
        raise tarfile.ReadError(f"{member.name!r} has times that are no numbers")
    return member


def _has_body(member: tarfile.TarInfo) -> bool:
    return member.isreg() or member.type not in tarfile.SUPPORTED_TYPES


def _padded(size: int) -> int:
    return size + -size % tarfile.BLOCKSIZE


def _records(content: bytes) -> dict[str, str]:
    """The records of a PAX header (POSIX.1-2008, pax), each `LENGTH KEY=VALUE` and a line break."""
    records, at = {}, 0
    while at < len(content):
        length, space, _ = content[at : at + _LENGTH].partition(b" ")
        end = at + int(length) if length.isdigit() else 0
        record, at = content[at + len(length) + 1 : end - 1], end
        key, equals, value = record.partition(b"=")
        if not space or not equals or content[end - 1 : end] != b"\n":
            raise tarfile.ReadError("an extended header is damaged")
        records[key.decode("utf-8", "surrogateescape")] = value.decode("utf-8", "surrogateescape")
    return records


def _apply(records: dict[str, str], member: tarfile.TarInfo) -> None:
    member.pax_headers = records
    try:
        member.name = records.get("path", member.name)
        member.linkname = records.get("linkpath", member.linkname)
        member.uname, member.gname = records.get("uname", member.uname), records.get("gname", member.gname)
        member.uid, member.gid = int(records.get("uid", member.uid)), int(records.get("gid", member.gid))
        member.size = int(records.get("size", member.size))
        member.mtime = float(records.get("mtime", member.mtime))
    except ValueError:
        raise tarfile.ReadError("an extended header is damaged") from None
    finite = 0 <= member.size < 1 << 63 and math.isfinite(member.mtime)
    if not finite or "\0" in member.name + member.linkname:
        raise tarfile.ReadError("an extended header is damaged")
    if max(len(member.name), len(member.linkname)) > _LONGEST_PATH:
        raise tarfile.ReadError("a name is longer than a path can be")
    member.name = member.name.rstrip("/") if member.isdir() else member.name
