"""An archive of exactly the locked packages of one build, for `deb [trusted=yes] http://apt.reprokit.invalid/KEY/ ./`.

It is flat and unsigned: apt verifies the packages by the checksums of `Packages`, which are the lock's own.
Format: https://wiki.debian.org/DebianRepository/Format.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, unquote

from reprokit.errors import SourceError
from reprokit.supply.kinds.apt import deb
from reprokit.supply.lock.model import AptPackage
from reprokit.supply.serve.content import send_file, send_page
from reprokit.supply.store import Store

if TYPE_CHECKING:
    from reprokit.supply.gateway import Handler

# apt asks for these first, whatever `trusted` says, and goes on without them.
_SIGNED = ("InRelease", "Release.gpg")


@dataclass(frozen=True)
class Archive:
    """`pages` by name, and the sha256 of each package by its path in the archive."""

    key: str
    pages: dict[str, bytes]
    files: dict[str, str]


def prepare(packages: tuple[AptPackage, ...], key: str, store: Store) -> Archive:
    """The archive called `key`, all of whose packages are in the store. Raises SourceError naming one that is not."""
    files = {_path(package): package.sha256 for package in packages}
    stanzas = (_stanza(package, store) for package in sorted(packages, key=_path))
    index = "\n".join(stanzas).encode()
    listed = f" {hashlib.sha256(index).hexdigest()} {len(index)} Packages"
    # The same packages are the same bytes, so the date is none of today.
    head = ("Origin: reprokit", "Label: reprokit", "Date: Sat, 01 Jan 2000 00:00:00 UTC", "SHA256:")
    release = "\n".join([*head, listed, ""]).encode()
    return Archive(key, {"Release": release, "Packages": index}, files)


def answer(handler: Handler, address: SplitResult) -> None:
    """Answer `/KEY/./Release`, `/KEY/./Packages` and the packages; what is not in the lock is 404 and recorded."""
    handler.discard_body()
    archive = handler.gateway.archive
    key, *parts = [unquote(part) for part in address.path.split("/") if part not in ("", ".")] or [""]
    name = "/".join(parts)
    if archive is None or key != archive.key:
        handler.refuse(404, "another build's packages")
    elif name in archive.pages:
        send_page(handler, archive.pages[name], "text/plain; charset=utf-8")
    elif name in archive.files:
        send_file(handler, handler.gateway.store.path(archive.files[name]))
    else:
        if name not in _SIGNED:
            handler.gateway.not_there(name)
        handler.refuse(404, f"{name} is not in the lock")


def _path(package: AptPackage) -> str:
    """Where a package lies in the archive. Two archives may have files of one name."""
    return f"{package.sha256[:16]}/{PurePosixPath(package.path).name}"


def _stanza(package: AptPackage, store: Store) -> str:
    control = store.remembered("deb", package.sha256)
    if control is None:
        file = store.path(package.sha256)
        if not file.exists():
            raise SourceError(f"{package.name} {package.version} is not in the store", hint="run `reprokit fetch`")
        control = deb.control(file)
        store.remember("deb", package.sha256, control)
    return f"{control}\nFilename: {_path(package)}\nSize: {package.size}\nSHA256: {package.sha256}\n"
