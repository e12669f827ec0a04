"""A layer's tar without the excluded files, and a report of what makes it large."""

from __future__ import annotations

import io
import posixpath
import tarfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from reprokit.errors import EngineError
from reprokit.untrusted.tar import Stream, members

# Caches of package managers and compilers, which are filled again on demand.
CACHES = (
    "/var/cache/apt/archives/*.deb",
    "/var/cache/apt/*.bin",
    "/var/lib/apt/lists/*",
    "*/.cache/pip/*",
    "*/.cache/uv/*",
    "*/.cache/ccache/*",
    "*/.ccache/*",
    "*/.npm/_cacache/*",
    "*/conda/pkgs/*.conda",
    "*/conda/pkgs/*.tar.bz2",
    "*/conda/pkgs/cache/*",
)
_DEPTH = 4
_MOST_LARGE = 10
_ONE_CHILD = 0.9
_END = bytes(2 * tarfile.BLOCKSIZE)

# The size of a file of the container, and its content.
Fetch = Callable[[str], AbstractContextManager[tuple[int, Iterator[bytes]] | None]]


@dataclass
class FilterReport:
    """Bytes of files by folder, and of the excluded files. Paths begin with a slash."""

    folders: Counter[str] = field(default_factory=Counter)
    excluded: Counter[str] = field(default_factory=Counter)

    @property
    def largest(self) -> list[tuple[str, int]]:
        """The largest folders and files, with their bytes; not a folder that is large because of a single child."""
        of_children: Counter[str] = Counter()
        for path, size in self.folders.items():
            parent = posixpath.dirname(path)
            of_children[parent] = max(of_children[parent], size if path != "/" else 0)
        most = ((path, size) for path, size in self.folders.most_common() if path != "/" and size)
        return [(path, size) for path, size in most if of_children[path] < _ONE_CHILD * size][:_MOST_LARGE]


def filter_layer(
    blocks: Iterator[bytes], patterns: Sequence[str], fetch: Fetch, report: FilterReport
) -> Iterator[bytes]:
    """The tar without regular files whose paths match one of `patterns`, where `*` matches slashes, too.

    Folders stay, and so do whiteouts, without which files of the layers below would reappear. A hard link to an
    excluded file becomes a file of its own, whose content `fetch` gives. Raises EngineError if that file no longer
    exists, or if the tar is damaged.
    """
    try:
        yield from _filtered(_Recording(blocks), patterns, fetch, report)
        yield _END
    except (tarfile.TarError, EOFError) as error:
        raise EngineError(f"the engine's layer is damaged: {error}", hint="repeat the command") from None


def _filtered(stream: _Recording, patterns: Sequence[str], fetch: Fetch, report: FilterReport) -> Iterator[bytes]:
    gone: set[str] = set()
    moved: dict[str, str] = {}
    for member in members(stream):
        path = posixpath.normpath("/" + member.name)
        header, size = stream.taken(), member.size if member.isreg() else 0
        body = stream.body(size + -size % tarfile.BLOCKSIZE)
        if (member.isreg() or member.islnk()) and _matches(path, patterns):
            report.excluded[path] += size
            gone.add(path)
            for _ in body:
                pass
        elif member.islnk() and (target := posixpath.normpath("/" + member.linkname)) in gone:
            yield from _other_link(member, path, moved.get(target), fetch)
            moved.setdefault(target, member.name)
        else:
            _count(report.folders, path, size)
            yield header
            yield from body


def _other_link(member: tarfile.TarInfo, path: str, now_at: str | None, fetch: Fetch) -> Iterator[bytes]:
    """A hard link to an excluded file: a link to the first copy of that file, or that copy."""
    member.pax_headers = {key: value for key, value in member.pax_headers.items() if key not in ("linkpath", "size")}
    if now_at is not None:
        member.linkname = now_at
        yield member.tobuf(tarfile.PAX_FORMAT)
        return
    with fetch(path) as found:
        if found is None:
            raise EngineError("a file was removed while the container was exported", path, "repeat the command")
        member.size, content = found
        member.type, member.linkname = tarfile.REGTYPE, ""
        yield member.tobuf(tarfile.PAX_FORMAT)
        yield from content
        yield bytes(-member.size % tarfile.BLOCKSIZE)


def _matches(path: str, patterns: Sequence[str]) -> bool:
    whiteout = posixpath.basename(path).startswith(".wh.")
    return not whiteout and any(fnmatchcase(path, pattern) for pattern in patterns)


def _count(folders: Counter[str], path: str, size: int) -> None:
    parts = path.split("/")[1:]
    for depth in range(min(len(parts), _DEPTH) + 1):
        folders["/" + "/".join(parts[:depth])] += size


class _Recording(Stream):
    """Remembers the bytes of headers, which are written unchanged."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        super().__init__(blocks)
        self._headers = io.BytesIO()

    def read(self, size: int) -> bytes:
        data = super().read(size)
        self._headers.write(data)
        return data

    def taken(self) -> bytes:
        data = self._headers.getvalue()
        self._headers = io.BytesIO()
        return data
