"""Debian packages: read (deb(5), deb-control(5)), and served as an archive of exactly the locked ones of one build.

The archive, `deb [trusted=yes] http://apt.reprokit.invalid/KEY/ ./`, is flat and unsigned: apt verifies the packages by
the checksums of `Packages`, which are the lock's own. Format: https://wiki.debian.org/DebianRepository/Format.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import lzma
import re
import tarfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any

import zstandard

from reprokit.errors import SourceError
from reprokit.supply.kinds.kind import content_key
from reprokit.supply.lock.model import AptPackage
from reprokit.supply.site import Content, Site
from reprokit.supply.store import Store
from reprokit.untrusted.limits import CONTROL, PACKAGE, Limit
from reprokit.untrusted.tar import Stream, members

_AR_MAGIC = b"!<arch>\n"
_AR_HEADER = 60
_BLOCK = 1 << 20
_LARGEST_STANZA = 1 << 20
# `xz -9` needs 65 MiB, and dpkg's zstd 8 MiB at its highest level.
_DECOMPRESSION_MEMORY = 128 << 20
_BROKEN = (OSError, ValueError, EOFError, tarfile.TarError, zlib.error, lzma.LZMAError, zstandard.ZstdError)
# apt requests these first even with `trusted`, and continues without them.
_SIGNED = ("InRelease", "Release.gpg")


def control(path: Path) -> str:
    """The control file's stanza without its final line break.

    Raises SourceError for an invalid package, UsageError beyond a limit.
    """
    with path.open("rb") as file:
        return stanza(file, str(path))


def stanza(file: IO[bytes], where: str) -> str:
    """`control` of an open file; errors name it `where`."""
    done = 0
    for member, stream in _members(file, "control.tar", CONTROL, where):
        done += member.size
        CONTROL.check(done, "bytes in control.tar", where)
        if member.name.removeprefix("./") == "control" and member.isreg() and member.size <= _LARGEST_STANZA:
            return stream.read(member.size).decode("utf-8", "replace").strip("\n")
    raise SourceError("not a Debian package: it has no control file", where)


def data(file: IO[bytes], where: str) -> Iterator[tuple[tarfile.TarInfo, Stream]]:
    """The entries of the package's file system, each with the stream of its body, to be read before the next entry.

    Raises SourceError for an invalid package, UsageError beyond a limit.
    """
    return _members(file, "data.tar", PACKAGE, where)


def _members(file: IO[bytes], prefix: str, most: Limit, where: str) -> Iterator[tuple[tarfile.TarInfo, Stream]]:
    with _refused(where):
        name, size = _part(file, prefix)
        most.check(size, f"bytes in {prefix}", where)
        stream = Stream(_unpacked(name, io.BytesIO(file.read(size)), where))
        entries = members(stream, where)
    while True:
        with _refused(where):
            member = next(entries, None)
        if member is None:
            return
        yield member, stream


@contextmanager
def _refused(where: str) -> Iterator[None]:
    try:
        yield
    except _BROKEN as error:
        raise SourceError(f"not a Debian package: {error}", where) from None


def _part(file: IO[bytes], prefix: str) -> tuple[str, int]:
    """Name and size of the archive's member `prefix.*`; the file is then at its start."""
    file.seek(0)
    if file.read(len(_AR_MAGIC)) != _AR_MAGIC:
        raise ValueError("it is not an ar archive")
    while len(header := file.read(_AR_HEADER)) == _AR_HEADER:
        if not re.fullmatch(rb"\d+ *", header[48:58]):
            raise ValueError("a member of it has no size")
        name, size = header[:16].decode("ascii").strip().rstrip("/"), int(header[48:58])
        if name.startswith(prefix):
            return name, size
        file.seek(size + size % 2, io.SEEK_CUR)
    raise ValueError(f"it has no {prefix}")


def _unpacked(name: str, packed: IO[bytes], where: str) -> Iterator[bytes]:
    """A part's tar in blocks, from any compression of dpkg-deb since Debian 8 and Ubuntu 14.04."""
    with _refused(where):
        if name.endswith(".tar.xz"):
            yield from _xz(packed)
            return
        if name.endswith(".tar.gz"):
            tar: Any = gzip.GzipFile(fileobj=packed)
        elif name.endswith(".tar.zst"):
            tar = zstandard.ZstdDecompressor(max_window_size=_DECOMPRESSION_MEMORY).stream_reader(packed)
        elif name.endswith(".tar"):
            tar = packed
        else:
            raise ValueError(f"{name} has an unknown compression")
        yield from iter(lambda: tar.read(_BLOCK), b"")


def _xz(packed: IO[bytes]) -> Iterator[bytes]:
    decompressor = lzma.LZMADecompressor(memlimit=_DECOMPRESSION_MEMORY)
    while not decompressor.eof:
        block = packed.read(_BLOCK) if decompressor.needs_input else b""
        if decompressor.needs_input and not block:
            raise EOFError("it is truncated")
        yield decompressor.decompress(block, _BLOCK)


def archive(packages: Sequence[AptPackage]) -> Site:
    """`/KEY/./Release`, `/KEY/./Packages` and `/KEY/./SHA256/FILE`."""

    def contents(store: Store) -> Mapping[str, Content]:
        """Raises SourceError naming a package that is not in the store."""
        index = "\n".join(_entry(package, store) for package in sorted(packages, key=_file_name)).encode()
        listed = f" {hashlib.sha256(index).hexdigest()} {len(index)} Packages"
        # A fixed date keeps the list reproducible.
        head = ("Origin: reprokit", "Label: reprokit", "Date: Sat, 01 Jan 2000 00:00:00 UTC", "SHA256:")
        files = {_file_name(package): store.path(package.sha256) for package in packages}
        return {"Release": "\n".join([*head, listed, ""]).encode(), "Packages": index, **files}

    return Site("apt", content_key(packages), contents, optional=_SIGNED)


def _file_name(package: AptPackage) -> str:
    """The path of a package in the archive; the hash keeps files of the same name apart."""
    return f"{package.sha256[:16]}/{PurePosixPath(package.path).name}"


def _entry(package: AptPackage, store: Store) -> str:
    fields = store.remembered("deb", package.sha256)
    if fields is None:
        file = store.path(package.sha256)
        if not file.exists():
            raise SourceError(f"{package.name} {package.version} is not in the store", hint="run `reprokit fetch`")
        fields = control(file)
        store.remember("deb", package.sha256, fields)
    return f"{fields}\nFilename: {_file_name(package)}\nSize: {package.size}\nSHA256: {package.sha256}\n"
