"""Debian packages made here, and locks of them."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

from reprokit.supply.lock.model import AptPackage
from reprokit.supply.store import Store


def make_deb(
    folder: Path, name: str, version: str = "1.0", architecture: str = "all", packing: str = "xz", **fields: str
) -> Path:
    """A package that holds /usr/share/NAME, packed with `packing`; `fields` are more of its control file."""
    tree = folder / f"{name}-tree"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "usr/share").mkdir(parents=True)
    (tree / "usr/share" / name).write_text(version)
    more = "".join(f"{key.replace('_', '-')}: {value}\n" for key, value in fields.items())
    (tree / "DEBIAN/control").write_text(
        f"Package: {name}\nVersion: {version}\nArchitecture: {architecture}\nMaintainer: T <t@example.org>\n{more}"
        "Description: made by a test\n with a second line\n"
    )
    without_epoch = version.partition(":")[2] or version
    file = folder / f"{name}_{without_epoch}_{architecture}.deb"
    subprocess.run(
        ["dpkg-deb", f"-Z{packing}", "--root-owner-group", "-b", tree, file], check=True, capture_output=True
    )
    shutil.rmtree(tree)
    return file


def locked(file: Path, store: Store) -> AptPackage:
    """The package of this file, which is copied into the store."""
    sha256 = hashlib.sha256(file.read_bytes()).hexdigest()
    store.path(sha256).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(file, store.path(sha256))
    command = ["dpkg-deb", "--show", "--showformat=${Package} ${Version} ${Architecture}", file]
    name, version, architecture = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return AptPackage(
        name=name, version=version, architecture=architecture, archive="debian", path=f"pool/main/{file.name}",
        sha256=sha256, size=file.stat().st_size,
    )  # fmt: skip
