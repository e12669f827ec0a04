"""A folder of layers' blobs: each is written under another name until it is complete."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from reprokit.oci.model import GZIP_LAYER_TYPE, LAYER_TYPE, ZSTD_LAYER_TYPE, Descriptor, Layer, hex_of

_TYPES = {"zst": ZSTD_LAYER_TYPE, "gz": GZIP_LAYER_TYPE, "tar": LAYER_TYPE}


@dataclass(frozen=True)
class StoredBlob:
    """A complete blob in a folder."""

    path: Path
    blob: Descriptor

    @property
    def name(self) -> str:
        """`DIFF.DIGEST`, both in hex."""
        return self.path.stem


class BlobFolder:
    """Blobs named `DIFF.DIGEST.zst`, `DIFF.DIGEST.gz` or, uncompressed, `DIFF.DIGEST.tar`; a `BlobSink`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def find(self, diff_id: str, kind: str = "zst") -> StoredBlob | None:
        """The blob of a layer."""
        for path in self.folder.glob(f"{hex_of(diff_id)}.*.{kind}"):
            digest = f"sha256:{path.name.split('.')[1]}"
            return StoredBlob(path, Descriptor(_TYPES[kind], digest, path.stat().st_size))
        return None

    def present(self, diff_id: str) -> Descriptor | None:
        stored = self.find(diff_id)
        return stored.blob if stored else None

    @contextlib.contextmanager
    def begin(self) -> Iterator[_BlobFile]:
        unfinished = self.folder / f".{secrets.token_hex(8)}"
        file = unfinished.open("xb")
        try:
            yield _BlobFile(self.folder, file)
        finally:
            with contextlib.suppress(OSError):  # buffered bytes may not fit
                file.close()
            unfinished.unlink(missing_ok=True)


class _BlobFile:
    def __init__(self, folder: Path, file: IO[bytes]) -> None:
        self._folder, self._file, self.write = folder, file, file.write

    def keep(self, layer: Layer) -> None:
        assert layer.blob
        self._file.flush()
        os.fsync(self._file.fileno())
        kind = next(kind for kind, media_type in _TYPES.items() if media_type == layer.blob.media_type)
        Path(self._file.name).replace(self._folder / f"{hex_of(layer.diff_id)}.{hex_of(layer.blob.digest)}.{kind}")
