"""Layers for nodes: compressed once, kept until all nodes have them."""

from __future__ import annotations

import contextlib
import fcntl
import json
import tempfile
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import zstandard

from reprokit.errors import SourceError
from reprokit.filelocks import acquire, try_acquire
from reprokit.oci.blob_folder import BlobFolder, StoredBlob
from reprokit.oci.compress import Hashed
from reprokit.oci.model import GZIP_LAYER_TYPE, Descriptor, Image, Layer, hex_of

_WEEK_S = 7 * 86400
_BLOCK = 1 << 20
_GZIP_LEVEL = 1  # a third faster than the next, and 4 % larger


class Spool(BlobFolder):
    """A folder of blobs and of images' configs.

    Entering it removes blobs that are a week old, unless another process uses the folder.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._gzipping = threading.Lock()

    def __enter__(self) -> Spool:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = (self.folder / ".lock").open("ab")
        self._remove(time.time() - _WEEK_S)
        acquire(self._lock, "waiting for another send to end", fcntl.LOCK_SH)
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.close()

    def clear(self) -> None:
        """Remove everything, unless another process uses the folder."""
        self._remove(float("inf"))

    def gzipped(self, diff_id: str) -> StoredBlob:
        """A present blob compressed with gzip instead; equal layers give equal blobs."""
        with self._gzipping:
            if not (found := self.find(diff_id, "gz")):
                self._gzip(diff_id)
                found = self.find(diff_id, "gz")
        assert found
        return found

    def _gzip(self, diff_id: str) -> None:
        source, packer = self.find(diff_id), zlib.compressobj(_GZIP_LEVEL, wbits=31)
        assert source
        with self.reported(), self.begin() as blob, source.path.open("rb") as file:
            hashed = Hashed(blob.write)
            for block in zstandard.ZstdDecompressor().read_to_iter(file, _BLOCK, _BLOCK):
                hashed.write(packer.compress(block))
            hashed.write(packer.flush())
            blob.keep(Layer(diff_id, 0, Descriptor(GZIP_LAYER_TYPE, hashed.digest, hashed.size)))

    @contextlib.contextmanager
    def reported(self) -> Iterator[None]:
        """Report a full disk as SourceError."""
        try:
            yield
        except OSError as error:
            hint = "free space there, or choose another place with $REPROKIT_HOME"
            raise SourceError(f"layers cannot be packed: {error.strerror}", str(self.folder), hint) from None

    def remember(self, key: str, image: Image) -> None:
        """Keep an image's config; `key` is the engine's ID."""
        record = {"config": image.config.decode(), "layers": [[layer.diff_id, layer.size] for layer in image.layers]}
        with tempfile.NamedTemporaryFile("w", dir=self.folder, prefix=".", delete=False, encoding="utf-8") as file:
            json.dump(record, file)
        Path(file.name).replace(self.folder / f"{hex_of(key)}.json")

    def image(self, key: str, name: str) -> Image | None:
        """A remembered image under this name; its layers have no blobs."""
        try:
            record = json.loads((self.folder / f"{hex_of(key)}.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        layers = tuple(Layer(diff_id, size, None) for diff_id, size in record["layers"])
        return Image(name, record["config"].encode(), layers)

    def _remove(self, before: float) -> None:
        """Remove the files that are older; this process then holds the folder alone, until it is used again."""
        if try_acquire(self._lock):
            for path in self.folder.iterdir():
                if path.name != ".lock" and path.is_file() and path.stat().st_mtime < before:
                    path.unlink()
