"""An OCI image layout as a folder, for skopeo's `oci:`, umoci and Apptainer."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from reprokit.bundle import layout
from reprokit.bundle.collect import Wanted, Watch
from reprokit.bundle.model import DOCKER_MANIFEST, Descriptor, Metadata, blob_path
from reprokit.bundle.pack import pack
from reprokit.bundle.write import LEAST_RATIO, Changed, Extras, Say, described, gather, require_all, unwritable
from reprokit.engine import Engine
from reprokit.errors import UsageError
from reprokit.host.disk import require_space
from reprokit.supply.transfer.claim import partial_of


def write(
    engine: Engine,
    wanted: Sequence[Wanted],
    target: Path,
    without: frozenset[str],
    extras: Extras,
    changed: Changed | None,
    say: Say,
    watch: Watch,
) -> Metadata:
    """See `Format`. Raises UsageError where the folder is there already and holds something."""
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UsageError("there is something of this name already", str(target), "name a new folder")
    partial = partial_of(target)
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        require_space(sum(each.size for each in wanted) // LEAST_RATIO, partial)
        sink = _Folder(partial)
        images = gather(engine, wanted, sink, without, changed, watch, pack)
        for path, content in layout.small_files(images):
            if path != DOCKER_MANIFEST:
                (partial / path).parent.mkdir(parents=True, exist_ok=True)
                (partial / path).write_bytes(content)
        sizes = {str(file.relative_to(partial)): file.stat().st_size for file in partial.rglob("*") if file.is_file()}
        require_all(images, sizes)
        partial.replace(target)
    except OSError as error:
        raise unwritable(error, target) from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return described(images, wanted, say)


class _Folder:
    """Blobs as files; one that is being written has a name of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held: dict[str, Descriptor] = {}

    def held(self, diff_id: str) -> Descriptor | None:
        return self._held.get(diff_id)

    def begin(self) -> _File:
        return _File(self._folder, self._held)


class _File:
    def __init__(self, folder: Path, held: dict[str, Descriptor]) -> None:
        self._folder, self._held = folder, held
        self._path = folder / "unfinished"
        self._file: IO[bytes] = self._path.open("wb")

    def write(self, data: bytes) -> None:
        self._file.write(data)

    def keep(self, diff_id: str, blob: Descriptor) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        target = self._folder / blob_path(blob.digest)
        target.parent.mkdir(parents=True, exist_ok=True)
        self._path.replace(target)
        self._held[diff_id] = blob

    def drop(self) -> None:
        self._file.close()
        self._path.unlink(missing_ok=True)
