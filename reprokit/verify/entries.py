"""The entries of a layer, as a container sees them. A layer may be hostile: nothing of it is unpacked."""

from __future__ import annotations

import hashlib
import tarfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from reprokit.errors import UsageError
from reprokit.untrusted.limits import ENTRIES, ENTRY_TEXT
from reprokit.untrusted.tar import Stream, members

_BLOCK = 1 << 20
# Fields of the header, which are compared as such, and times.
_HEADERS = {"path", "linkpath", "size", "uid", "gid", "uname", "gname", "mtime", "atime", "ctime"}
SEEN = ("type", "mode", "owner", "target", "size", "device", "attributes", "content")
_TYPES = {
    tarfile.REGTYPE: "file", tarfile.AREGTYPE: "file", tarfile.DIRTYPE: "folder", tarfile.SYMTYPE: "link",
    tarfile.LNKTYPE: "hard link", tarfile.CHRTYPE: "device", tarfile.BLKTYPE: "device", tarfile.FIFOTYPE: "pipe",
}  # fmt: skip


@dataclass(frozen=True)
class LayerEntry:
    """What containers see of an entry (`seen`, named by `SEEN`), what not (`unseen`), and where its content is.

    `unseen` holds the time of the last change, and the names of owner and group, for which engines before 23 asked the
    host; the numbers decide.
    """

    seen: tuple[str, ...]
    unseen: tuple[float, str, str]
    offset: int
    size: int


def entries(file: IO[bytes], where: str) -> dict[tuple[str, int], LayerEntry]:
    """The entries of an uncompressed layer by path and number, as a path may be there more than once.

    Raises UsageError naming `where` if the layer is damaged or exceeds a limit.
    """
    found: dict[tuple[str, int], LayerEntry] = {}
    count: Counter[str] = Counter()
    stream, text = Stream(iter(lambda: file.read(_BLOCK), b"")), 0
    try:
        for member in members(stream, where, ENTRIES):
            offset, content = stream.tell(), hashlib.sha256()
            size = member.size if member.isreg() else 0
            for block in stream.body(size):
                content.update(block)
            seen = (
                _TYPES.get(member.type, repr(member.type)),
                f"{member.mode & 0o7777:o}",
                f"{member.uid}:{member.gid}",
                member.linkname,
                str(size),
                f"{member.devmajor}:{member.devminor}" if member.isdev() else "",
                repr(sorted(pair for pair in member.pax_headers.items() if pair[0] not in _HEADERS)),
                content.hexdigest() if size else "",
            )
            text += len(member.name) + sum(map(len, seen))
            ENTRY_TEXT.check(text, "bytes of names in a layer", where)
            count[member.name] += 1
            unseen = (member.mtime, member.uname, member.gname)
            found[member.name, count[member.name]] = LayerEntry(seen, unseen, offset, size)
    except (tarfile.TarError, EOFError) as error:
        raise UsageError(f"a layer is damaged: {error}", where) from None
    return found


def content_of(file: IO[bytes], entry: LayerEntry) -> Iterator[bytes]:
    """The content of a file, in blocks."""
    file.seek(entry.offset)
    for start in range(0, entry.size, _BLOCK):
        yield file.read(min(_BLOCK, entry.size - start))
