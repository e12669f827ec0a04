"""An archive of exactly the locked packages of one build, for `deb [trusted=yes] http://apt.reprokit.invalid/KEY/ ./`.

It is flat and unsigned: apt verifies the packages by the checksums of `Packages`, which are the lock's own.
Format: https://wiki.debian.org/DebianRepository/Format.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from reprokit.errors import SourceError
from reprokit.supply.kinds.apt import deb
from reprokit.supply.kinds.kind import content_key
from reprokit.supply.lock.model import AptPackage
from reprokit.supply.serve.site import Content, Site
from reprokit.supply.store import Store

# apt asks for these first even with `trusted`, and continues without them.
_SIGNED = ("InRelease", "Release.gpg")


def archive(packages: Sequence[AptPackage]) -> Site:
    """`/KEY/./Release`, `/KEY/./Packages` and `/KEY/./SHA256/FILE`."""

    def contents(store: Store) -> Mapping[str, Content]:
        """Raises SourceError naming a package that is not in the store."""
        index = "\n".join(_stanza(package, store) for package in sorted(packages, key=_path)).encode()
        listed = f" {hashlib.sha256(index).hexdigest()} {len(index)} Packages"
        # A fixed date keeps the list reproducible.
        head = ("Origin: reprokit", "Label: reprokit", "Date: Sat, 01 Jan 2000 00:00:00 UTC", "SHA256:")
        files = {_path(package): store.path(package.sha256) for package in packages}
        return {"Release": "\n".join([*head, listed, ""]).encode(), "Packages": index, **files}

    return Site("apt", content_key(packages), contents, optional=_SIGNED)


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
