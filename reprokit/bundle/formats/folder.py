"""An OCI image layout as a folder, for skopeo's `oci:`, umoci and Apptainer."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from reprokit.bundle.model import Metadata
from reprokit.bundle.partial_file import partial_of
from reprokit.bundle.write import LEAST_RATIO, Changed, Extras, Say, described, gather, require_all, unwritable
from reprokit.engine import Engine
from reprokit.errors import UsageError
from reprokit.host.disk import require_space
from reprokit.oci.compress import compress
from reprokit.oci.layout import layout_files
from reprokit.oci.model import Descriptor, blob_path
from reprokit.oci.read import EngineImage, Progress


def write(
    engine: Engine,
    images: Sequence[EngineImage],
    target: Path,
    without: frozenset[str],
    extras: Extras,
    changed: Changed | None,
    say: Say,
    progress: Progress,
) -> Metadata:
    """See `Format`. Raises UsageError where the folder exists and is not empty."""
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UsageError("the target exists and is not an empty folder", str(target), "name a new folder")
    partial = partial_of(target)
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        require_space(sum(each.size for each in images) // LEAST_RATIO, partial)
        sink = _Folder(partial)
        found = gather(engine, images, sink, without, changed, progress, compress)
        for path, content in layout_files(found):
            (partial / path).parent.mkdir(parents=True, exist_ok=True)
            (partial / path).write_bytes(content)
        sizes = {str(file.relative_to(partial)): file.stat().st_size for file in partial.rglob("*") if file.is_file()}
        require_all(found, sizes)
        partial.replace(target)
    except OSError as error:
        raise unwritable(error, target) from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return described(found, images, say)


class _Folder:
    """A `BlobSink` of files; unfinished blobs have another name."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._present: dict[str, Descriptor] = {}

    def present(self, diff_id: str) -> Descriptor | None:
        return self._present.get(diff_id)

    def begin(self) -> _File:
        return _File(self._folder, self._present)


class _File:
    def __init__(self, folder: Path, present: dict[str, Descriptor]) -> None:
        self._folder, self._present = folder, present
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
        self._present[diff_id] = blob

    def drop(self) -> None:
        self._file.close()
        self._path.unlink(missing_ok=True)
