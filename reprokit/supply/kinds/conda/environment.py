"""Conda packages, read as bytes: no path of a package is opened on this host.

A `.conda` is a zip of two tars (`info/`, and all other files), each packed with zstd; the older format is `.tar.bz2`.
"""

from __future__ import annotations

import bz2
import errno
import hashlib
import io
import json
import re
import tarfile
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path
from typing import IO, Any, cast

import zstandard

from reprokit.errors import SourceError
from reprokit.supply.kinds.kind import content_key
from reprokit.supply.lock.model import CondaPackage
from reprokit.supply.store import Store
from reprokit.untrusted.documents import parsed
from reprokit.untrusted.limits import CONDA_TEXT, CONDA_VALUES, DEPTH, DOCUMENT, ENTRIES, VALUES, Limit, check_unpacked
from reprokit.untrusted.tar import Stream, members

_BLOCK = 1 << 20
_LIST = 1 << 20  # bytes of a zip's list of members: there are three
# Above the window of zstd's highest level without `--long`.
_WINDOW = 128 << 20
_FACTS = (
    *("arch", "build_number", "features", "license", "license_family", "noarch", "platform"),
    *("python_site_packages_path", "timestamp", "track_features"),
)
_BROKEN = (
    *(ValueError, LookupError, TypeError, AttributeError, EOFError, ArithmeticError, RuntimeError),
    *(tarfile.TarError, zipfile.BadZipFile, zstandard.ZstdError),
)
PLACE = "/opt/conda"
_NEW = PLACE.encode()
_ZEROS = bytes(1 << 16)
_LONGEST_PLACEHOLDER = 4096  # bytes of a path
_LONGEST_PATH, _LONGEST_NAME = 4096, 255  # bytes; Linux's limits
_OLD_PREFIX = "/opt/anaconda1anaconda2anaconda3"
_PREFIX_LINE = re.compile(r'(?:"([^"]+)"|([^" ]+)) (text|binary) (?:"([^"]+)"|([^"]+))')
_ENTRY_POINT = re.compile(r"\s*([^\s=/]+)\s*=\s*([\w.]+)\s*:\s*([\w.]+)\s*")
_KEPT = ("sha256", "size_in_bytes", "prefix_placeholder", "file_mode", "no_link")


@contextmanager
def readable(package: CondaPackage) -> Iterator[None]:
    """Turn errors of reading into SourceError, which names the package."""
    try:
        yield
    except (*_BROKEN, OSError) as error:
        # bz2 raises OSError for damaged data; zipfile seeks to the offsets of a damaged list.
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        why = str(error).strip().replace("\n", " ")[:300] or type(error).__name__
        raise SourceError(f"the conda package {package.file} cannot be linked: {why}") from None


@dataclass
class EnvironmentSize:
    """The total size of an environment's packages; each method raises UsageError beyond a limit."""

    packed: int = 0
    unpacked: int = 0
    text: int = 0
    files: int = 0

    def unpack(self, size: int, where: str) -> None:
        self.unpacked += size
        check_unpacked(self.unpacked, self.packed, where)

    def read(self, size: int, where: str) -> None:
        self.text += size
        CONDA_TEXT.check(self.text, "bytes of names and documents in conda packages", where)

    def link(self, where: str) -> None:
        self.files += 1
        if self.files > ENTRIES.most:
            ENTRIES.check(self.files, "files of conda packages", where)


@dataclass(frozen=True, slots=True)
class PackedFile:
    """A file, or a symbolic link to `target`: its content is `size` bytes of `tar` from `offset` on."""

    tar: Path
    offset: int
    size: int
    executable: bool
    target: str | None

    @contextmanager
    def opened(self) -> Iterator[IO[bytes]]:
        """A file at the beginning of the content."""
        with self.tar.open("rb") as file:
            file.seek(self.offset)
            yield file

    def blocks(self) -> Iterator[bytes]:
        with self.opened() as file:
            remaining = self.size
            while remaining:
                block = file.read(min(remaining, _BLOCK))
                remaining -= len(block)
                yield block


class CondaArchive:
    """A package whose tars are unpacked into the new folder `folder`, under names of reprokit's own."""

    def __init__(self, package: CondaPackage, path: Path, folder: Path, used: EnvironmentSize) -> None:
        self.package, self._folder, self.used = package, folder, used
        folder.mkdir()
        used.packed += path.stat().st_size
        with readable(package):
            self._tars = [self._unpacked(tar, number) for number, tar in enumerate(_tars(path, package.file))]
            self.index = self._index()
            specs = self.index.get("depends") or ()
            self.dependencies = [re.split("[ =<>!~[]", str(spec), maxsplit=1)[0] for spec in specs]

    def facts(self) -> dict[str, Any]:
        """The facts of the index in conda's record of the package."""
        plain = {key: self.index[key] for key in _FACTS if isinstance(self.index.get(key), (str, int))}
        return {**plain, **{key: list(map(str, self.index.get(key) or ())) for key in ("constrains", "depends")}}

    def entries(self) -> dict[str, PackedFile]:
        """The files and links by name; hard links are the files that they name. Raises TarError."""
        files: dict[str, PackedFile] = {}
        for member, entry in self._members():
            self.used.read(len(member.name) + len(member.linkname), self.package.file)
            if member.islnk():
                entry = files[_plain(member.linkname)]
            elif not (member.isreg() or member.issym()):
                continue
            files[_plain(member.name)] = entry
        return files

    def document(self, entry: PackedFile, values: Limit = CONDA_VALUES) -> Any:
        """The value of a JSON document. Raises ValueError."""
        return parsed(self.text(entry), self.package.file, values)

    def text(self, entry: PackedFile) -> bytes:
        DOCUMENT.check(entry.size, "bytes in a document", self.package.file)
        self.used.read(entry.size, self.package.file)
        return b"".join(entry.blocks())

    def _index(self) -> dict[str, Any]:
        entry = next((e for m, e in self._members() if _plain(m.name) == "info/index.json" and m.isreg()), None)
        if entry is None:
            raise ValueError("it has no info/index.json")
        return dict(self.document(entry, VALUES))

    def _members(self) -> Iterator[tuple[tarfile.TarInfo, PackedFile]]:
        for tar in self._tars:
            end = tar.stat().st_size
            with tar.open("rb") as file:
                for member in members(file, self.package.file):
                    if member.isreg() and file.tell() + member.size > end:
                        raise EOFError("it is truncated")
                    target = member.linkname if member.issym() else None
                    yield member, PackedFile(tar, file.tell(), member.size, bool(member.mode & 0o100), target)

    def _unpacked(self, tar: IO[bytes], number: int) -> Path:
        path = self._folder / f"{number}.tar"
        with path.open("xb") as file:
            while block := tar.read(_BLOCK):
                self.used.unpack(len(block), self.package.file)
                file.write(block)
        return path


def _plain(name: str) -> str:
    return name.removeprefix("./")


def _tars(path: Path, name: str) -> Iterator[IO[bytes]]:
    if not name.endswith(".conda"):
        with bz2.open(path) as tar:
            yield tar
        return
    with zipfile.ZipFile(_ZipFile(path)) as parts:
        for prefix in ("info-", "pkg-"):
            [part] = [i for i in parts.infolist() if i.filename.startswith(prefix) and i.filename.endswith(".tar.zst")]
            if part.compress_type != zipfile.ZIP_STORED:
                raise ValueError(f"{prefix}*.tar.zst is packed twice")
            with parts.open(part) as packed:
                yield zstandard.ZstdDecompressor(max_window_size=_WINDOW).stream_reader(packed, read_across_frames=True)


class _ZipFile(io.FileIO):
    """A file whose list of members is short, as zipfile reads it into memory."""

    def read(self, size: int | None = -1, /) -> bytes:
        content = super().read(_LIST + 1 if size is None or size < 0 else min(size, _LIST + 1)) or b""
        if len(content) > _LIST:
            raise zipfile.BadZipFile("its list of members is too long")
        return content


@dataclass(frozen=True)
class Prefix:
    """The placeholder of a file. In a binary file, strings of C keep their length: zeros follow the shorter path."""

    placeholder: bytes
    binary: bool

    def __post_init__(self) -> None:
        if not len(_NEW) <= len(self.placeholder) <= _LONGEST_PLACEHOLDER:
            raise ValueError(f"a placeholder of {len(self.placeholder)} bytes is too short or too long")

    def measured(self, entry: PackedFile) -> tuple[int, str]:
        """Size and sha256 of the content with the path replaced."""
        size, digest = 0, hashlib.sha256()
        for piece in self.replaced(entry.blocks()):
            size += len(piece)
            digest.update(piece)
        return size, digest.hexdigest()

    def replaced(self, blocks: Iterable[bytes]) -> Iterator[bytes]:
        """The content with the path replaced, in pieces."""
        tail, short = b"", 0
        for block in chain(blocks, (b"",)):
            pieces = (tail + block).split(self.placeholder)
            # The beginning of a placeholder that the next block ends.
            kept = len(pieces[-1]) if not block else max(0, len(pieces[-1]) - len(self.placeholder) + 1)
            pieces[-1], tail = pieces[-1][:kept], pieces[-1][kept:]
            if not self.binary:
                yield _NEW.join(pieces)
                continue
            for number, piece in enumerate(pieces):
                if number:
                    yield _NEW
                    short += len(self.placeholder) - len(_NEW)
                if short and (end := piece.find(b"\0")) >= 0:
                    yield piece[:end]
                    yield from _zeros(short)
                    piece, short = piece[end:], 0
                yield piece
        yield from _zeros(short)


def _zeros(count: int) -> Iterator[bytes]:
    while count:
        piece = _ZEROS[:count]
        yield piece
        count -= len(piece)


_PROGRAM = """\
#!{place}/bin/python{version}
# -*- coding: utf-8 -*-
import re
import sys

from {module} import {name}

if __name__ == '__main__':
\tsys.argv[0] = re.sub(r'(-script\\.pyw?|\\.exe)?$', '', sys.argv[0])
\tsys.exit({function}())
"""


@dataclass(frozen=True, slots=True)
class Link:
    """A file, symbolic link or folder of the environment. `content` is None for a folder."""

    path: str
    content: PackedFile | bytes | None
    size: int = 0
    prefix: Prefix | None = None


@dataclass(frozen=True)
class CondaPython:
    """The environment's Python, for packages that are for all platforms."""

    version: str
    site_packages: str

    @classmethod
    def of(cls, archive: CondaArchive) -> CondaPython:
        """Raises ValueError."""
        match = re.match(r"(\d{1,4})\.(\d{1,4})", archive.package.version)
        if match is None:
            raise ValueError(f"Python {archive.package.version} has no minor version")
        return cls(match[0], archive.index.get("python_site_packages_path") or f"lib/python{match[0]}/site-packages")

    def place(self, path: str) -> str:
        first, _, below = path.partition("/")
        return {"site-packages": f"{self.site_packages}/{below}", "python-scripts": f"bin/{below}"}.get(first, path)

    def programs(self, entry_points: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        for line in entry_points:
            match = _ENTRY_POINT.fullmatch(line)
            if match is None:
                raise ValueError(f"{line[:100]!r} is not an entry point")
            name, _, _ = match[3].partition(".")
            text = _PROGRAM.format(
                place=PLACE, version=self.version, module=match[2], name=name, function=match[3]
            )  # fmt: skip
            yield f"bin/{match[1]}", text.encode()


def links(archive: CondaArchive, python: CondaPython | None) -> Iterator[tuple[Link, dict[str, Any]]]:
    """Each file with its entry in conda's record. Raises ValueError and the like."""
    entries = archive.entries()
    noarch = archive.index.get("noarch") == "python"
    if noarch and python is None:
        raise ValueError("it needs a Python in the environment")
    for stated in _stated(archive, entries):
        path = stated["_path"]
        placed = python.place(path) if noarch and python else path
        yield _link(archive, placed, stated, entries.get(path))
    if noarch and python and "info/link.json" in entries:
        points = archive.document(entries["info/link.json"])["noarch"].get("entry_points") or []
        for path, content in python.programs(points):
            sums = {"sha256": hashlib.sha256(content).hexdigest(), "size_in_bytes": len(content)}
            link = Link(checked(path, archive), content, len(content))
            yield link, {"_path": path, "path_type": "unix_python_entry_point", **sums}


def checked(path: str, archive: CondaArchive) -> str:
    """The path, if it is a plain one below the environment; it is counted. Raises ValueError, UsageError."""
    archive.used.link(archive.package.file)
    parts = path.split("/")
    if not {"", ".", ".."}.isdisjoint(parts) or "\0" in path:
        raise ValueError(f"{path[:100]!r} is not a path in the environment")
    raw = [len(part.encode("utf-8", "surrogateescape")) for part in parts]
    if sum(raw) + len(raw) > _LONGEST_PATH or max(raw) > _LONGEST_NAME:
        raise ValueError(f"{path[:100]!r} is too long")
    DEPTH.check(len(parts) - 1, "folders inside each other in a conda package", archive.package.file)
    return path


def _stated(archive: CondaArchive, entries: dict[str, PackedFile]) -> Iterator[dict[str, Any]]:
    if "info/paths.json" in entries:
        yield from archive.document(entries["info/paths.json"])["paths"]
        return
    if "info/files" not in entries:
        raise ValueError("it has no list of its files")
    prefixes = {}
    if "info/has_prefix" in entries:
        for line in archive.text(entries["info/has_prefix"]).decode().splitlines():
            if match := _PREFIX_LINE.fullmatch(line.strip()):
                prefixes[match[4] or match[5]] = (match[1] or match[2], match[3])
            elif line.strip():
                prefixes[line.strip()] = (_OLD_PREFIX, "text")
    for path in archive.text(entries["info/files"]).decode().splitlines():
        if path:
            stated = {"_path": path, "path_type": "hardlink"}
            placeholder, mode = prefixes.get(path, (None, None))
            yield {**stated, "prefix_placeholder": placeholder, "file_mode": mode} if placeholder else stated


def _link(
    archive: CondaArchive, path: str, stated: dict[str, Any], entry: PackedFile | None
) -> tuple[Link, dict[str, Any]]:
    checked(path, archive)
    if entry is None:
        if stated.get("path_type") != "directory":
            raise ValueError(f"{path[:100]!r} is not in the archive")
        return Link(path, None), {"_path": path, "path_type": "directory"}
    kept = {key: stated[key] for key in _KEPT if isinstance(stated.get(key), (str, int))}
    record = {"_path": path, "path_type": "hardlink", **kept}
    if entry.target is not None:
        return Link(path, entry), {**record, "path_type": "softlink"}
    if not (placeholder := stated.get("prefix_placeholder")):
        return Link(path, entry, entry.size), record
    prefix = Prefix(placeholder.encode(), stated.get("file_mode") == "binary")
    size, sha256 = prefix.measured(entry)
    return Link(path, entry, size, prefix), {**record, "sha256_in_prefix": sha256, "size_in_bytes": size}


def environment(packages: Sequence[CondaPackage], store: Store) -> Path:
    """A tar of `/opt/conda` with these packages, which are in the store. The tar is kept there too.

    Raises SourceError if a package cannot be linked, UsageError beyond a limit.
    """
    key = content_key(packages)
    sha256_of_tar = store.remembered("conda", key)
    if sha256_of_tar is not None and store.path(sha256_of_tar).exists():
        return store.path(sha256_of_tar)
    with store.scratch() as scratch:
        folder, used = Path(scratch), EnvironmentSize()
        archives = [
            CondaArchive(package, store.path(package.sha256), folder / str(number), used)
            for number, package in enumerate(packages)
        ]
        _write(_linked(archives), folder / "environment.tar")
        sha256 = store.add(folder / "environment.tar")
    store.remember("conda", key, sha256)
    return store.path(sha256)


def _linked(archives: Sequence[CondaArchive]) -> list[Link]:
    """All files of the environment, sorted, each folder before its content. Raises SourceError, UsageError."""
    python = None
    for archive in archives:
        if archive.package.name == "python":
            with readable(archive.package):
                python = CondaPython.of(archive)
    files: dict[str, Link] = {"conda-meta/history": Link("conda-meta/history", b"")}
    for archive in _by_priority(archives):
        with readable(archive.package):
            record = _record(archive, python, files)
        files[record.path] = record
    ordered = sorted(files.values(), key=lambda link: link.path.replace("/", "\0"))
    for above, below in pairwise(ordered):
        if above.content is not None and below.path.startswith(f"{above.path}/"):
            why = f"{above.path!r} is a file or a link, and {below.path!r} is below it"
            raise SourceError(f"the conda packages cannot be linked: {why}")
    return ordered


def _record(archive: CondaArchive, python: CondaPython | None, linked: dict[str, Link]) -> Link:
    """Add the package's files to `linked`, except paths of earlier packages; returns conda's record of the package."""
    package, paths = archive.package, []
    for link, stated in links(archive, python):
        if linked.setdefault(link.path, link) is link:
            paths.append(stated)
    paths.sort(key=lambda stated: stated["_path"])
    record = {
        **archive.facts(), "name": package.name, "version": package.version, "build": package.build,
        "subdir": package.subdir, "channel": package.channel, "fn": package.file, "sha256": package.sha256,
        "size": package.size, "url": f"{package.channel}/{package.subdir}/{package.file}", "requested_specs": [],
        "files": [stated["_path"] for stated in paths], "paths_data": {"paths": paths, "paths_version": 1},
    }  # fmt: skip
    content = json.dumps(record, indent=1, sort_keys=True).encode()
    path = checked(f"conda-meta/{package.name}-{package.version}-{package.build}.json", archive)
    return Link(path, content, len(content))


def _by_priority(archives: Sequence[CondaArchive]) -> Iterator[CondaArchive]:
    """By name, but before their dependencies: if two files have the same path, the first package's is kept."""
    by_name = {archive.package.name: archive for archive in archives}
    done, seen = dict[str, CondaArchive](), set[str]()
    for first in sorted(by_name, reverse=True):
        stack = [first]
        while stack:
            name = stack[-1]
            if name not in seen:
                seen.add(name)
                stack += [other for other in by_name[name].dependencies if other in by_name and other not in seen]
            else:
                done.setdefault(stack.pop(), by_name[name])
    return reversed(done.values())


def _write(links: Sequence[Link], out: Path) -> None:
    """Write a tar that is reproducible, and readable by every user of a container."""
    folders = {""}
    with tarfile.open(out, "w", format=tarfile.GNU_FORMAT, encoding="utf-8") as tar:
        for link in links:
            path, content = link.path, link.content
            above = path.split("/") if content is None else path.split("/")[:-1]
            for depth in range(1, len(above) + 1):
                if (folder := "/".join(above[:depth])) not in folders:
                    folders.add(folder)
                    tar.addfile(_member(folder, tarfile.DIRTYPE, 0o755))
            if isinstance(content, bytes):
                program = path.startswith("bin/")
                tar.addfile(_member(path, tarfile.REGTYPE, 0o755 if program else 0o644, link.size), io.BytesIO(content))
            elif content is not None and content.target is not None:
                member = _member(path, tarfile.SYMTYPE, 0o777)
                member.linkname = content.target
                tar.addfile(member)
            elif content is not None:
                member = _member(path, tarfile.REGTYPE, 0o755 if content.executable else 0o644, link.size)
                body = link.prefix.replaced(content.blocks()) if link.prefix else content.blocks()
                tar.addfile(member, cast(IO[bytes], Stream(body)))


def _member(path: str, kind: bytes, mode: int, size: int = 0) -> tarfile.TarInfo:
    member = tarfile.TarInfo(path)
    member.type, member.mode, member.size = kind, mode, size
    return member
