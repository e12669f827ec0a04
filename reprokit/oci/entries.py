"""The entries of a layer, as a container sees them. A layer may be hostile: nothing of it is unpacked."""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import IO

from reprokit.errors import UsageError
from reprokit.untrusted.limits import ENTRIES, ENTRY_TEXT
from reprokit.untrusted.tar import Stream, members

_BLOCK = 1 << 20
# Fields of the header, which are compared as such, and times.
_HEADERS = {"path", "linkpath", "size", "uid", "gid", "uname", "gname", "mtime", "atime", "ctime"}
SEEN = ("type", "mode", "owner", "target", "size", "device", "attributes", "same file as", "content")
_TARGET, _SAME_FILE = SEEN.index("target"), SEEN.index("same file as")
FOLDER, LINK, HARD_LINK = "folder", "link", "hard link"
_TYPES = {
    tarfile.REGTYPE: "file", tarfile.AREGTYPE: "file", tarfile.DIRTYPE: FOLDER, tarfile.SYMTYPE: LINK,
    tarfile.LNKTYPE: HARD_LINK, tarfile.CHRTYPE: "device", tarfile.BLKTYPE: "device", tarfile.FIFOTYPE: "pipe",
}  # fmt: skip


@dataclass(frozen=True)
class LayerEntry:
    """An entry: the fields that containers see (`seen`, named by `SEEN`), others (`unseen`), and the content's offset.

    `unseen` holds the time of the last change, and the names of owner and group, for which engines before 23 asked the
    host; the numbers decide. `offset` is -1 for a hard link to a file of another layer.
    """

    seen: tuple[str, ...]
    unseen: tuple[float, str, str]
    offset: int
    size: int

    @property
    def kind(self) -> str:
        return self.seen[0]

    @property
    def target(self) -> str:
        return self.seen[_TARGET]

    def same_file_as(self, path: str) -> LayerEntry:
        return replace(self, seen=(*self.seen[:_SAME_FILE], path, *self.seen[_SAME_FILE + 1 :]))


@dataclass
class EntryTotal:
    """Totals of layers that are read together: entries, bytes of their texts, and paths that were looked up."""

    entries: int = 0
    text: int = 0
    paths: int = 0


def entries(blocks: Iterable[bytes], where: str, total: EntryTotal | None = None) -> Iterator[tuple[str, LayerEntry]]:
    """The entries of an uncompressed layer in their order, with their paths; `total` counts them.

    Raises UsageError naming `where` if the layer is damaged or exceeds a limit.
    """
    stream, total = Stream(blocks), total or EntryTotal()
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
                "",
                content.hexdigest() if size else "",
            )
            total.entries += 1
            ENTRIES.check(total.entries, "entries in layers", where)
            total.text += len(member.name) + sum(map(len, seen))
            ENTRY_TEXT.check(total.text, "bytes of names in layers", where)
            yield member.name, LayerEntry(seen, (member.mtime, member.uname, member.gname), offset, size)
    except (tarfile.TarError, EOFError) as error:
        raise UsageError(f"a layer is damaged: {error}", where) from None


def content_of(file: IO[bytes], entry: LayerEntry) -> Iterator[bytes]:
    """The content of a file, in blocks."""
    file.seek(entry.offset)
    for start in range(0, entry.size, _BLOCK):
        yield file.read(min(_BLOCK, entry.size - start))
