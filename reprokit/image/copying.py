"""COPY and ADD: which paths of a stage or of the build context become which paths of the image.

As BuildKit copies (github.com/tonistiigi/fsutil, copy/copy.go): owners of the context become root, those of stages
stay; a folder's content goes into the target, a file to the target or into it.
"""

from __future__ import annotations

import bz2
import fnmatch
import lzma
import posixpath
import re
import stat
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from secrets import token_hex
from typing import Any

import zstandard
from e2b_dockerfile_utils import PatternMatcher

from reprokit.engine import Engine
from reprokit.errors import EngineError, ReprokitError, UsageError
from reprokit.helper.container import NAME, BuildContainer, Entry
from reprokit.image.dockerfile import Copy
from reprokit.untrusted import tar

# The date of folders that no source has, as in images/step.j2: 2000-01-01.
EPOCH = 946684800
_WILD = re.compile(r"[*?\[]")
_DIR, _LINK = 1 << 31, 1 << 27  # of Go's fs.FileMode
_MOST_LINKS = 40
_BLOCK = 1 << 20  # bzip2 returns nothing before the end of a block, which has up to 900 kB
_PACKED = 512  # compressed bytes at once: each may become many thousands
_MEMORY = 128 << 20  # bytes that a decompressor may use
_TYPES = {
    tarfile.DIRTYPE: stat.S_IFDIR,
    tarfile.SYMTYPE: stat.S_IFLNK,
    tarfile.CHRTYPE: stat.S_IFCHR,
    tarfile.BLKTYPE: stat.S_IFBLK,
    tarfile.FIFOTYPE: stat.S_IFIFO,
}


@dataclass(frozen=True)
class Tree:
    """One source by its `path`. The paths of its `entries` are relative to it, its own is `.`."""

    path: str
    is_folder: bool
    entries: Iterator[Entry]


Trees = Callable[[str], Iterator[Tree]]
"""The sources that a word of COPY names, with its wildcards: none if it names nothing."""


@contextmanager
def image_trees(engine: Engine, image: str) -> Iterator[Trees]:
    """The files of an image, through a container that never starts."""
    name = f"{NAME}source-{token_hex(6)}"
    engine.create_container(name, {"Image": image, "Entrypoint": ["/"], "HostConfig": {"NetworkMode": "none"}})
    try:
        yield lambda source: _image_trees(engine, name, source)
    finally:
        with suppress(ReprokitError):
            engine.remove(name, force=True)


def _image_trees(engine: Engine, container: str, source: str) -> Iterator[Tree]:
    path = posixpath.normpath(posixpath.join("/", source))
    wild = _WILD.search(path)
    if wild is None:
        if (resolved := _resolved(engine, container, path)) is not None:
            yield _tree(engine, container, path, *resolved)
        return
    fixed = posixpath.dirname(path[: wild.start()]) or "/"
    names = []
    with engine.archive(container, fixed, None) as blocks:
        for member in tar.members(tar.Stream(blocks or ()), fixed) if blocks else ():
            names.append(posixpath.normpath(posixpath.join(posixpath.dirname(fixed), member.name)))
    for name in sorted(names):
        if matches(name, path) and (resolved := _resolved(engine, container, name)) is not None:
            yield _tree(engine, container, name, *resolved)


def matches(path: str, pattern: str) -> bool:
    """Whether a pattern names a path: wildcards do not cross `/` (Go's filepath.Match)."""
    parts, words = path.split("/"), pattern.split("/")
    return len(parts) == len(words) and all(map(fnmatch.fnmatchcase, parts, words))


def _resolved(engine: Engine, container: str, path: str) -> tuple[str, bool] | None:
    """The path at the end of links, and whether it is a folder."""
    for _ in range(_MOST_LINKS):
        status = engine.status(container, path)
        if status is None:
            return None
        if not status.mode & _LINK:
            return path, bool(status.mode & _DIR)
        path = status.link
    return None


def _tree(engine: Engine, container: str, named: str, path: str, is_folder: bool) -> Tree:
    return Tree(named, is_folder, _archived(engine, container, path))


def _archived(engine: Engine, container: str, path: str) -> Iterator[Entry]:
    top = posixpath.basename(path)
    try:
        with engine.archive(container, path, None) as blocks:
            if blocks is None:
                return
            stream = tar.Stream(blocks)
            for member in tar.members(stream, path):
                yield _entry(member, stream, top)
    except (tarfile.TarError, EOFError) as error:
        raise EngineError(f"the engine's archive of {path} cannot be read: {error}", container) from None


def _entry(member: tarfile.TarInfo, stream: tar.Stream, top: str) -> Entry:
    """A member with its path below the source's last part."""
    records = member.pax_headers
    prefix = "SCHILY.xattr."
    return Entry(
        _below(member.name, top),
        _TYPES.get(member.type, stat.S_IFREG),
        member.mode & 0o7777,
        member.uid,
        member.gid,
        int(Decimal(records.get("mtime", str(int(member.mtime)))) * 10**9),
        _below(member.linkname, top) if member.islnk() else member.linkname,
        member.islnk(),
        (member.devmajor, member.devminor) if member.ischr() or member.isblk() else (0, 0),
        {
            key.removeprefix(prefix): value.encode("utf-8", "surrogateescape")
            for key, value in records.items()
            if key.startswith(prefix)
        },
        stream.body(member.size) if member.isreg() else None,
    )


def _below(name: str, top: str) -> str:
    name = posixpath.normpath("/" + name).lstrip("/")
    return posixpath.relpath(name, top) if top else name or "."


def file_trees(files: Mapping[str, bytes]) -> Trees:
    """Files by path, as a build context."""

    def trees(source: str) -> Iterator[Tree]:
        path = posixpath.normpath(posixpath.join("/", source)).lstrip("/")
        for name in sorted(files):
            if matches(name, path):
                yield Tree(name, False, iter([Entry(".", stat.S_IFREG, 0o644, content=iter([files[name]]))]))
        inside = {name: text for name, text in files.items() if path == "" or name.startswith(f"{path}/")}
        if inside:
            yield Tree(path, True, _files_below(path, inside))

    return trees


def _files_below(path: str, files: Mapping[str, bytes]) -> Iterator[Entry]:
    made = {"."}
    yield Entry(".", stat.S_IFDIR, 0o755)
    for name in sorted(files):
        below = posixpath.relpath(name, path or ".")
        parents: list[str] = []
        while (parent := posixpath.dirname(parents[-1] if parents else below)) and parent not in made:
            parents.append(parent)
        for parent in reversed(parents):
            made.add(parent)
            yield Entry(parent, stat.S_IFDIR, 0o755)
        yield Entry(below, stat.S_IFREG, 0o644, content=iter([files[name]]))


def copy(container: BuildContainer, step: Copy, trees: Trees, owner: tuple[int, int] | None, where: str) -> None:
    """Do a COPY or ADD in a container. `owner` is that of --chown. Raises UsageError with `where`."""
    if step.mode and not re.fullmatch(r"[0-7]{3,4}", step.mode):
        raise UsageError(f"--chmod={step.mode[:60]} is not a number such as 755", where)
    if step.unpacks and (addresses := [source for source in step.sources if re.match(r"\w+://|git@", source)]):
        hint = "name it in the recipe (`files:` or `sources:`), or download it in a RUN"
        raise UsageError(f"ADD of an address is not supported: {addresses[0][:200]}", where, hint)
    ignored = PatternMatcher(list(step.exclude))
    copied = [(source, tree) for source in step.sources for tree in _some(trees, source, where)]
    copied += [
        (name, Tree(name, False, iter([Entry(".", stat.S_IFREG, 0o644, content=iter([text.encode()]))])))
        for name, text in step.texts
    ]
    target = posixpath.normpath(posixpath.join("/", step.folder, step.target))
    into = step.target.endswith(("/", "/.")) or step.target == "."
    if len(copied) > 1 and not into:
        raise UsageError(f"COPY of several sources needs a folder as its target: {step.target}/", where)
    present = container.status(target)
    into = into or (present is not None and present.is_folder) or step.parents
    uid, gid = owner or (0, 0)
    made = Entry("", stat.S_IFDIR, 0o755, uid, gid, EPOCH * 10**9)
    for source, tree in copied:
        root = target
        if step.parents:
            root = posixpath.join(target, _kept_parents(source, tree.path))
        elif not tree.is_folder and into:
            root = posixpath.join(target, posixpath.basename(tree.path))
        entries: Iterable[Entry] = tree.entries
        if step.unpacks and not tree.is_folder:
            entries = ahead = _Ahead(tree.entries)
            if archive := _unpacked(ahead, tree, where):
                root, entries = target, archive
                _parents(container, target, made)
        _parents(container, root if tree.is_folder else posixpath.dirname(root), made)
        folders = []
        for entry in entries:
            path = posixpath.normpath(posixpath.join(root, entry.path))
            if step.exclude and ignored.matches(posixpath.normpath(posixpath.join(tree.path, entry.path)).lstrip("/")):
                continue
            own = replace(entry, path=path, user=uid, group=gid) if owner else replace(entry, path=path)
            if entry.hard:
                own = replace(own, target=posixpath.normpath(posixpath.join(root, entry.target)))
            if step.mode and entry.kind != stat.S_IFLNK:
                own = replace(own, mode=int(step.mode, 8))
            if entry.path == "." and entry.kind == stat.S_IFDIR:
                if present is None:  # else the target's own attributes stay
                    folders.append(own)
                continue
            container.make(own)
            if entry.kind == stat.S_IFDIR:
                folders.append(own)
        for own in reversed(folders):
            container.settle(own)
        container.check()


def _kept_parents(source: str, path: str) -> str:
    """The part of a source's path that --parents keeps: all of it, or what follows `/./`."""
    before, pivot, _ = source.partition("/./")
    path = posixpath.normpath(posixpath.join("/", path))
    return posixpath.relpath(path, posixpath.join("/", before) if pivot else "/")


class _Ahead:
    """Entries; the content of the first can be read ahead."""

    def __init__(self, entries: Iterator[Entry]) -> None:
        self._first = next(entries)
        self._content = self._first.content or iter(())
        self._head = b""
        self._others = entries

    def head(self, size: int) -> bytes:
        while len(self._head) < size and (block := next(self._content, b"")):
            self._head += block
        return self._head[:size]

    def content(self) -> Iterator[bytes]:
        yield self._head
        yield from self._content

    def __iter__(self) -> Iterator[Entry]:
        yield replace(self._first, content=self.content() if self._first.content else None)
        yield from self._others


_FORMATS: dict[bytes, Callable[[], Any]] = {
    b"\x1f\x8b": lambda: zlib.decompressobj(31),
    b"BZh": bz2.BZ2Decompressor,
    b"\xfd7zXZ\0": lambda: lzma.LZMADecompressor(memlimit=_MEMORY),
    b"\x28\xb5\x2f\xfd": lambda: zstandard.ZstdDecompressor(max_window_size=_MEMORY).decompressobj(),
}
_DAMAGED = (EOFError, OSError, zlib.error, lzma.LZMAError, zstandard.ZstdError)


def _unpacked(entries: _Ahead, tree: Tree, where: str) -> Iterator[Entry] | None:
    """The entries of an archive, None for another file. Archives are recognised by content, as by `docker build`."""
    head = entries.head(_BLOCK)
    new = next((new for magic, new in _FORMATS.items() if head.startswith(magic)), None)
    try:
        begin = next(_joined(_plain(iter([head]), new)), b"") if new else head
    except _DAMAGED:
        return None
    if begin[257:262] != b"ustar":
        return None
    blocks = _plain(entries.content(), new) if new else entries.content()

    def members() -> Iterator[Entry]:
        stream = tar.Stream(blocks)
        try:
            for member in tar.members(stream, tree.path):
                yield _entry(member, stream, "")
        except (tarfile.TarError, *_DAMAGED) as error:
            raise UsageError(f"the archive {tree.path} cannot be unpacked: {error}", where) from None

    return members()


def _plain(blocks: Iterator[bytes], new: Callable[[], Any]) -> Iterator[bytes]:
    """The content of one compressed stream after another, as parallel compressors write them."""
    decompressor = new()
    for block in blocks:
        for at in range(0, len(block), _PACKED):
            packed = block[at : at + _PACKED]
            while packed:
                if decompressor.eof:
                    decompressor = new()
                yield decompressor.decompress(packed)
                packed = decompressor.unused_data if decompressor.eof else b""


def _joined(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """The first blocks, joined until they hold a header of a tar."""
    begin = b""
    for block in blocks:
        begin += block
        if len(begin) >= tarfile.BLOCKSIZE:
            yield begin
            return


def _some(trees: Trees, source: str, where: str) -> Sequence[Tree]:
    if sources := list(trees(source)):
        return sources
    raise UsageError(f"COPY finds no {source}", where)


def _parents(container: BuildContainer, path: str, like: Entry) -> None:
    """Make a folder and those above it."""
    missing = []
    while path != "/" and container.status(path) is None:
        missing.append(path)
        path = posixpath.dirname(path)
    for folder in reversed(missing):
        container.make(replace(like, path=folder))
        container.settle(replace(like, path=folder))
