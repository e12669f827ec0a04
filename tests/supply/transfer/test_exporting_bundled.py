"""The archive of inputs as a part of a bundle of images."""

from __future__ import annotations

import hashlib
import tarfile
from pathlib import Path

from reprokit.bundle.partial import PartialTar
from reprokit.bundle.parts import add_store
from reprokit.supply.store import Store
from tests.support.stores import no_engine


def test_it_is_what_export_writes(store: Store, recipe: Path, archive: Path, tmp_path: Path) -> None:
    with (tmp_path / "bundle").open("w+b") as file:
        tar = PartialTar(file)
        part = add_store(tar, ["x"], tmp_path, store, no_engine, lambda line: None)
        tar.end()
    with tarfile.open(tmp_path / "bundle") as bundle:
        content = bundle.extractfile(part.path).read()  # type: ignore[union-attr]
    assert content == archive.read_bytes()
    assert (part.digest, part.size) == (f"sha256:{hashlib.sha256(content).hexdigest()}", len(content))
    assert part.kind == "store"
