"""An archive of exactly the locked packages of one build, for `deb [trusted=yes] http://apt.reprokit.invalid/KEY/ ./`.

It is flat and unsigned: apt verifies the packages by the checksums of `Packages`, which are the lock's own.
Format: https://wiki.debian.org/DebianRepository/Format.
"""

from __future__ import annotations

import hashlib
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, unquote

from reprokit.errors import SourceError
from reprokit.supply.kinds.apt import deb
from reprokit.supply.kinds.kind import content_key
from reprokit.supply.lock.model import AptPackage
from reprokit.supply.serve.content import send_file, send_page
from reprokit.supply.store import Store

if TYPE_CHECKING:
    from reprokit.supply.gateway import Handler

# apt asks for these first even with `trusted`, and continues without them.
_SIGNED = ("InRelease", "Release.gpg")


class Archive:
    """The packages of one build, at `/KEY/./Release`, `/KEY/./Packages` and `/KEY/./SHA256/FILE`."""

    host = "apt.reprokit.invalid"

    def __init__(self, packages: tuple[AptPackage, ...]) -> None:
        self.packages, self.key = packages, content_key(packages)

    def arguments(self) -> dict[str, str]:
        return {"REPROKIT_APT": f"http://{self.host}/{self.key}/"}

    def prepare(self, store: Store, scratch: Path) -> None:
        """Write the package list. Raises SourceError naming a package that is not in the store."""
        self.store = store
        self.files = {_path(package): package.sha256 for package in self.packages}
        index = "\n".join(_stanza(package, store) for package in sorted(self.packages, key=_path)).encode()
        listed = f" {hashlib.sha256(index).hexdigest()} {len(index)} Packages"
        # A fixed date keeps the list reproducible.
        head = ("Origin: reprokit", "Label: reprokit", "Date: Sat, 01 Jan 2000 00:00:00 UTC", "SHA256:")
        self.pages = {"Release": "\n".join([*head, listed, ""]).encode(), "Packages": index}

    def answer(self, handler: Handler, address: SplitResult) -> None:
        handler.discard_body()
        key, *parts = [unquote(part) for part in address.path.split("/") if part not in ("", ".")] or [""]
        name = "/".join(parts)
        if key != self.key:
            handler.refuse(404, "another build's packages")
        elif name in self.pages:
            send_page(handler, self.pages[name], "text/plain; charset=utf-8")
        elif name in self.files:
            send_file(handler, self.store.path(self.files[name]))
        else:
            if name not in _SIGNED:
                handler.gateway.not_there(name)
            handler.refuse(404, f"{name} is not in the lock")


def _path(package: AptPackage) -> str:
    """The path of a package in the archive; the hash keeps files of the same name apart."""
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
