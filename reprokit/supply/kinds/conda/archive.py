"""Conda packages, read as bytes: no path of a package is opened on this host.

A `.conda` is a zip of two tars, of `info/` and of the rest, each packed with zstd; the older format is one `.tar.bz2`.
"""

from __future__ import annotations

import bz2
import errno
import io
import re
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import zstandard

from reprokit.errors import SourceError
from reprokit.supply.lock.model import CondaPackage
from reprokit.untrusted.documents import parsed
from reprokit.untrusted.limits import CONDA_TEXT, CONDA_VALUES, DOCUMENT, ENTRIES, VALUES, Limit, check_unpacked
from reprokit.untrusted.tar import members

_BLOCK = 1 << 20
_LIST = 1 << 20  # of the members of a zip: there are three
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


@contextmanager
def readable(package: CondaPackage) -> Iterator[None]:
    """Turn errors of reading into SourceError, which names the package."""
    try:
        yield
    except (*_BROKEN, OSError) as error:
        # bz2 raises one for damaged data; zipfile seeks where a damaged list leads.
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        why = str(error).strip().replace("\n", " ")[:300] or type(error).__name__
        raise SourceError(f"the conda package {package.file} cannot be linked: {why}") from None


@dataclass
class Taken:
    """What all packages of an environment take together; each method raises UsageError beyond a limit."""

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
            left = self.size
            while left:
                block = file.read(min(left, _BLOCK))
                left -= len(block)
                yield block


class CondaArchive:
    """A package whose tars are unpacked into the new folder `folder`, under names of reprokit's own."""

    def __init__(self, package: CondaPackage, path: Path, folder: Path, taken: Taken) -> None:
        self.package, self._folder, self.taken = package, folder, taken
        folder.mkdir()
        taken.packed += path.stat().st_size
        with readable(package):
            self._tars = [self._unpacked(tar, number) for number, tar in enumerate(_tars(path, package.file))]
            self.index = self._index()
            specs = self.index.get("depends") or ()
            self.dependencies = [re.split("[ =<>!~[]", str(spec), maxsplit=1)[0] for spec in specs]

    def facts(self) -> dict[str, Any]:
        """What conda's record of the package has of the index."""
        plain = {key: self.index[key] for key in _FACTS if isinstance(self.index.get(key), (str, int))}
        return {**plain, **{key: list(map(str, self.index.get(key) or ())) for key in ("constrains", "depends")}}

    def entries(self) -> dict[str, PackedFile]:
        """The files and links by name; hard links are the files that they name. Raises TarError."""
        found: dict[str, PackedFile] = {}
        for member, entry in self._members():
            self.taken.read(len(member.name) + len(member.linkname), self.package.file)
            if member.islnk():
                entry = found[_plain(member.linkname)]
            elif not (member.isreg() or member.issym()):
                continue
            found[_plain(member.name)] = entry
        return found

    def document(self, entry: PackedFile, values: Limit = CONDA_VALUES) -> Any:
        """The value of a JSON document. Raises ValueError."""
        return parsed(self.text(entry), self.package.file, values)

    def text(self, entry: PackedFile) -> bytes:
        DOCUMENT.check(entry.size, "bytes in a document", self.package.file)
        self.taken.read(entry.size, self.package.file)
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
                self.taken.unpack(len(block), self.package.file)
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
    """A file of which zipfile reads no long list of members into memory."""

    def read(self, size: int | None = -1, /) -> bytes:
        content = super().read(_LIST + 1 if size is None or size < 0 else min(size, _LIST + 1)) or b""
        if len(content) > _LIST:
            raise zipfile.BadZipFile("its list of members is too long")
        return content
