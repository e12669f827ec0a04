"""Bundles composed by hand, valid or not, for the tests of readers."""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import zstandard

from reprokit.bundle.model import small_files
from reprokit.oci.canonical import PassingLayers, canonical_digest
from reprokit.oci.layout import header
from reprokit.oci.model import ZSTD_LAYER_TYPE, Descriptor, Image, Layer, blob_path, digest_of
from tests.support.names import WORKER

END = bytes(2 * tarfile.BLOCKSIZE)


def packed(content: bytes) -> bytes:
    return zstandard.ZstdCompressor(level=3).compress(content)


def config_of(layers: Sequence[bytes], labels: dict[str, str] | None = None) -> bytes:
    # Equal configurations are one image, which another worker's test would remove.
    value = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Env": ["PATH=/bin"], "Labels": {"reprokit-test": "made", "worker": WORKER, **(labels or {})}},
        "rootfs": {"type": "layers", "diff_ids": [digest_of(layer) for layer in layers]},
    }
    return json.dumps(value).encode()


def canonical_of(layers: Sequence[bytes]) -> str:
    """The canonical digest of the image that a `Made` has of these layers."""
    passing, diff_ids = PassingLayers(), [digest_of(layer) for layer in layers]
    for layer, diff_id in zip(layers, diff_ids, strict=True):
        assert list(passing.passing([layer])) == [layer]
        passing.named(diff_id)
    passing.keep(diff_ids)
    return canonical_digest(diff_ids, Image("", config_of(layers), ()).settings)


@dataclass
class Made:
    """A bundle before it is written: change `files` (path and content, in order) or `metadata` to make it wrong."""

    images: list[Image] = field(default_factory=list)
    blobs: dict[str, bytes] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        images: dict[str, Sequence[bytes]],
        absent: Sequence[bytes] = (),
        labels: dict[str, str] | None = None,
        pack: Callable[[bytes], bytes] = packed,
        **described: Any,
    ) -> Made:
        """Images of these layers (uncompressed tars) by name; `absent` ones are excluded."""
        made = cls()
        left_out = {digest_of(layer) for layer in absent}
        entries = []
        for name, contents in images.items():
            layers = []
            for content in contents:
                blob = None
                if digest_of(content) not in left_out:
                    raw = pack(content)
                    blob = Descriptor(ZSTD_LAYER_TYPE, digest_of(raw), len(raw))
                    made.blobs[blob_path(blob.digest)] = raw
                layers.append(Layer(digest_of(content), len(content), blob))
            image = Image(name, config_of(contents, labels), tuple(layers))
            made.images.append(image)
            sizes = {"size": sum(map(len, contents)), "packed": sum(each.blob.size for each in layers if each.blob)}
            entries.append({"name": name, "id": image.id, **sizes, **described})
        made.metadata = {"format": 1, "reprokit": "0.1.0", "created": "20261121T101500Z"}
        made.metadata |= {"images": entries, "absent": sorted(left_out)}
        return made

    @property
    def files(self) -> dict[str, bytes]:
        return self.blobs | dict(small_files(self.images, json.dumps(self.metadata).encode()))

    def write(self, path: Path) -> Path:
        path.write_bytes(tar(self.files))
        return path


def tar(files: dict[str, bytes]) -> bytes:
    parts = (header(path, len(content)) + content + bytes(-len(content) % 512) for path, content in files.items())
    return b"".join(parts) + END


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
