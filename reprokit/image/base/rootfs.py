"""The exported file system of a base, normalised so that equal packages give equal bytes."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO

from reprokit.errors import UsageError
from reprokit.image.base.stage import FOLDER, path_of
from reprokit.oci.layout import END, padding
from reprokit.untrusted.limits import BASE, BASE_ENTRIES
from reprokit.untrusted.tar import Stream, members

_BLOCK = 1 << 20
_LARGEST_STATUS = 16 << 20
# The only extended attribute that packages set.
_CAPABILITY = "SCHILY.xattr.security.capability"
# Files of the engine, files that differ each time, and files that apt and dpkg no longer need.
_DROPPED = re.compile(
    rf"{re.escape(FOLDER)}(/.*)?|\.dockerenv|(dev|proc|sys|tmp)/.*|run/(?!lock$).*|etc/(hostname|hosts|resolv\.conf|mtab)"
    r"|etc/machine-id|var/lib/dbus/machine-id|var/log/((dpkg|alternatives|bootstrap)\.log|apt/.*)"
    r"|var/cache/(ldconfig/aux-cache|debconf/.*-old|apt/.*\.bin)|var/lib/dpkg/(.*-old|(triggers/)?[Ll]ock(-frontend)?)",
    re.DOTALL,
)
_STATUS = "var/lib/dpkg/status"


@dataclass(frozen=True)
class _ExportedFile:
    """`offset` is where the file's content begins in the spool."""

    info: tarfile.TarInfo
    offset: int = 0


class RootFileSystem:
    """The entries of an engine's export, with file contents in `spool`; no file is written under its own name."""

    def __init__(self, export: Iterable[bytes], spool: IO[bytes], where: str) -> None:
        """Raises UsageError for a limit or for entries that a base cannot have, TarError if the export is damaged."""
        self._spool = spool
        self._entries: dict[str, _ExportedFile] = {}
        stream, size = Stream(export), 0
        for member in members(stream, where):
            path = path_of(member.name, where)
            if not path or (_DROPPED.fullmatch(path) and not member.isreg()):
                continue
            if not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
                raise UsageError(f"a package made {path[:200]!r}, which is a device or a pipe", where)
            entry = _ExportedFile(member, spool.tell())
            if member.isreg():
                size += member.size
                BASE.check(size, "bytes in a base", where)
                for block in stream.body(member.size):
                    spool.write(block)
            self._entries[path] = entry
            BASE_ENTRIES.check(len(self._entries), "files in a base", where)

    def installed(self) -> set[tuple[str, str]]:
        """Names and versions of the installed packages, from dpkg's status."""
        entry = self._entries.get(_STATUS)
        if entry is None or not entry.info.isreg() or entry.info.size > _LARGEST_STATUS:
            return set()
        self._spool.seek(entry.offset)
        return installed(self._spool.read(entry.info.size).decode("utf-8", "replace"))

    def tar(self, newest: int) -> Iterator[bytes]:
        """The normalised tar in blocks: sorted by path, and no date after `newest` (Unix time)."""
        contents = self._contents()
        first: dict[str, str] = {}
        for path in sorted(self._entries, key=lambda path: path.split("/")):
            if _DROPPED.fullmatch(path):
                continue
            entry = self._entries[contents.get(path, path)]
            info = _normalised(entry.info, path, newest)
            if info.isreg() and (other := first.setdefault(contents.get(path, path), path)) != path:
                info.type, info.linkname, info.size = tarfile.LNKTYPE, other, 0
            yield info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")
            if info.isreg():
                self._spool.seek(entry.offset)
                for start in range(0, info.size, _BLOCK):
                    yield self._spool.read(min(_BLOCK, info.size - start))
                yield padding(info.size)
        yield END

    def _contents(self) -> dict[str, str]:
        """For each hard link, the path of the entry with its content."""
        contents: dict[str, str] = {}
        for path, entry in self._entries.items():
            if entry.info.islnk():
                target = path_of(entry.info.linkname, path)
                target = contents.get(target, target)
                if target not in self._entries or not self._entries[target].info.isreg():
                    raise UsageError(f"the hard link {path[:200]!r} does not lead to a file", target[:200])
                contents[path] = target
        return contents


def installed(status: str) -> set[tuple[str, str]]:
    """The installed packages of dpkg's status file, as names and versions."""
    packages = set()
    for entry in status.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in entry.splitlines() if ": " in line and line[0] != " ")
        if fields.get("Status", "").endswith(" installed"):
            packages.add((fields.get("Package", ""), fields.get("Version", "")))
    return packages


def _normalised(member: tarfile.TarInfo, path: str, newest: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(path)
    info.type, info.mode, info.uid, info.gid = member.type, member.mode & 0o7777, member.uid, member.gid
    # The date of a folder only records dpkg's last write to it.
    info.mtime = newest if member.isdir() else min(max(int(member.mtime), 0), newest)
    info.size = member.size if member.isreg() else 0
    info.linkname = member.linkname if member.issym() else ""
    if value := member.pax_headers.get(_CAPABILITY):
        info.pax_headers = {_CAPABILITY: value}
    return info
