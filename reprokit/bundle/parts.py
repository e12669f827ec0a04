"""What travels along with images: the workspace of a recipe, and the inputs that its lock names."""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

import zstandard

from reprokit.bundle.model import Part
from reprokit.bundle.partial import PartialTar
from reprokit.engine import Engine
from reprokit.errors import UsageError
from reprokit.host import workspace
from reprokit.recipe.find import target
from reprokit.supply.store import Store
from reprokit.untrusted.files import pack

Say = Callable[[str], None]
_LEVEL = 3
# Made anew by whoever runs the code there.
_LEFT_OUT = {"__pycache__", ".pytest_cache"}


def workspace_of(recipe: str) -> tuple[str, Path]:
    """Name and folder of what the recipe's containers see. Raises UsageError where it is not there."""
    name = target(recipe).workspace
    folder = workspace.locate(name)
    if not folder.is_dir():
        raise UsageError(f"{recipe} has no workspace yet", str(folder), "leave out --with-workspace")
    return name, folder


def add_workspace(tar: PartialTar, recipe: str) -> Part:
    """The workspace of a recipe, owners left out. Raises UsageError where there is none."""
    name, folder = workspace_of(recipe)
    with _Entry(tar) as entry:
        packer = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True).stream_writer(entry.file, closefd=False)
        with packer, tarfile.open(fileobj=packer, mode="w|", format=tarfile.PAX_FORMAT) as inner:
            pack(folder, inner, _LEFT_OUT.__contains__)
    return entry.finish("workspace", name, f"workspaces/{name}.tar.zst")


def add_store(
    tar: PartialTar, names: list[str], folder: Path, store: Store, connect: Callable[[], Engine], say: Say
) -> Part:
    """What `store export` writes of these recipes; `folder` is where the bundle is written."""
    # Few bundles carry inputs, and the import takes longer than all others of the command.
    from reprokit.supply.transfer.exporting import write

    with store.in_use(say), _Entry(tar) as entry:
        manifest = write(names, entry.file, folder, store, connect, say)
    return entry.finish("store", ", ".join(manifest.targets), "store/inputs.tar.zst")


class _Entry:
    """A file of the bundle that is written without knowing its size, and hashed meanwhile."""

    def __init__(self, tar: PartialTar) -> None:
        self._tar, self._blob = tar, tar.begin()
        self._digest, self._size = hashlib.sha256(), 0

    @property
    def file(self) -> IO[bytes]:
        return self  # type: ignore[return-value]

    def __enter__(self) -> _Entry:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is not None:
            self._blob.drop()

    def write(self, data: bytes) -> int:
        self._digest.update(data)
        self._size += len(data)
        self._blob.write(data)
        return len(data)

    def flush(self) -> None:
        """Compressors ask for it."""

    def finish(self, kind: str, name: str, path: str) -> Part:
        self._tar.finish(path, self._size)
        digest = f"sha256:{self._digest.hexdigest()}"
        return Part.model_validate({"kind": kind, "name": name, "path": path, "digest": digest, "size": self._size})
