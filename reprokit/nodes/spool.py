"""Layers for nodes: compressed once, kept until all nodes have them."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import tempfile
import threading
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO

import zstandard

from reprokit.errors import SourceError
from reprokit.oci.compress import Hashed
from reprokit.oci.model import GZIP_LAYER_TYPE, ZSTD_LAYER_TYPE, Descriptor, Image, Layer, hex_of

_WEEK_S = 7 * 86400
_BLOCK = 1 << 20
_GZIP_LEVEL = 1  # a third faster than the next, and 4 % larger


@dataclass(frozen=True)
class Spooled:
    """A blob in the spool."""

    path: Path
    blob: Descriptor

    @property
    def name(self) -> str:
        """`DIFF.DIGEST`, both in hex; nodes use it, too."""
        return self.path.stem


class Spool:
    """A folder of blobs and of images' configs; a `BlobSink`. A full disk raises SourceError.

    Entering it removes blobs that are a week old, unless another process uses the folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._changed = threading.Condition()
        self._packing = threading.Lock()

    def __enter__(self) -> Spool:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = (self.folder / ".lock").open("ab")
        if self._alone():
            self._remove(time.time() - _WEEK_S)
        fcntl.flock(self._lock, fcntl.LOCK_SH)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.close()

    def clear(self) -> None:
        """Remove everything, unless another process uses the folder."""
        if self._alone():
            self._remove(float("inf"))
            fcntl.flock(self._lock, fcntl.LOCK_SH)

    def present(self, diff_id: str) -> Descriptor | None:
        found = self.find(diff_id)
        return found.blob if found else None

    def begin(self) -> _SpooledBlob:
        return _SpooledBlob(self)

    def find(self, diff_id: str, kind: str = "zst") -> Spooled | None:
        """The blob of a layer: `zst`, or `gz` where `gzipped` made one."""
        for path in self.folder.glob(f"{hex_of(diff_id)}.*.{kind}"):
            digest = f"sha256:{path.name.split('.')[1]}"
            return Spooled(path, Descriptor(_TYPES[kind], digest, path.stat().st_size))
        return None

    def wait(self, diff_id: str, patience_s: float) -> Spooled | None:
        """Wait for the blob of a layer; None after `patience_s` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: self.find(diff_id), patience_s) or None

    def gzipped(self, diff_id: str) -> Spooled:
        """A present blob compressed with gzip instead; equal layers give equal blobs."""
        with self._packing:
            found = self.find(diff_id, "gz")
            source = self.find(diff_id)
            if found or source is None:
                assert found
                return found
            blob = _SpooledBlob(self, "gz")
            try:
                packer = zlib.compressobj(_GZIP_LEVEL, wbits=31)
                with source.path.open("rb") as file:
                    for block in zstandard.ZstdDecompressor().read_to_iter(file, _BLOCK, _BLOCK):
                        blob.write(packer.compress(block))
                blob.write(packer.flush())
                return blob.finish(diff_id)
            except BaseException:
                blob.drop()
                raise

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

    def notify(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _alone(self) -> bool:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _remove(self, before: float) -> None:
        for path in self._files():
            if path.stat().st_mtime < before:
                path.unlink()

    def _files(self) -> Iterator[Path]:
        return (path for path in self.folder.iterdir() if path.name != ".lock" and path.is_file())


class _SpooledBlob:
    """A blob that is being written."""

    def __init__(self, spool: Spool, kind: str = "zst") -> None:
        self._spool, self._kind = spool, kind
        self._hashed = Hashed()
        self._file: IO[bytes] = tempfile.NamedTemporaryFile(dir=spool.folder, prefix=".", delete=False)  # noqa: SIM115

    def write(self, data: bytes) -> None:
        with self._reported():
            self._file.write(data)
        if self._kind != "zst":  # the caller of `keep` has hashed it
            self._hashed.update(data)

    def keep(self, diff_id: str, blob: Descriptor) -> None:
        with self._reported():
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
        path = self._spool.folder / f"{hex_of(diff_id)}.{hex_of(blob.digest)}.{self._kind}"
        Path(self._file.name).replace(path)
        self._spool.notify()

    def finish(self, diff_id: str) -> Spooled:
        blob = Descriptor(_TYPES[self._kind], self._hashed.digest, self._hashed.size)
        self.keep(diff_id, blob)
        found = self._spool.find(diff_id, self._kind)
        assert found
        return found

    def drop(self) -> None:
        with contextlib.suppress(OSError):  # buffered bytes may not fit
            self._file.close()
        Path(self._file.name).unlink(missing_ok=True)

    @contextlib.contextmanager
    def _reported(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            hint = "free space there, or choose another place with $REPROKIT_HOME"
            raise SourceError(f"layers cannot be packed: {error.strerror}", str(self._spool.folder), hint) from None


_TYPES = {"zst": ZSTD_LAYER_TYPE, "gz": GZIP_LAYER_TYPE}
