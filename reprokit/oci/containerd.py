"""The compressed blobs of a containerd store, which an image's manifest must name.

An image whose manifest names other blobs runs, but can be neither exported nor pushed (moby #49473, PR #53615). The
engine shows its blobs only in saved archives.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from dataclasses import replace

from reprokit.engine import Engine
from reprokit.errors import EngineError
from reprokit.formatting import counted
from reprokit.oci.docker_archive import ArchiveReader
from reprokit.oci.model import Descriptor, Image, ImageConfig, ImageManifest, blob_path
from reprokit.oci.store import Form, ImageStore
from reprokit.untrusted.documents import validated


def with_store_blobs(image: Image, store: ImageStore) -> Image:
    """The image with the store's own blobs in place of excluded layers. Raises EngineError."""
    last = max((n for n, layer in enumerate(image.layers, 1) if layer.blob is None), default=0)
    if store.form is not Form.BLOBS or not last:
        return image
    needed = {layer.diff_id for layer in image.layers if layer.blob is None}
    blobs = _blobs(store.engine, store.chains.image_with(image.diff_ids[:last]), needed)
    if missing := needed - set(blobs):
        raise EngineError(
            f"the engine has {counted(len(missing), 'layer')} of {image.name} unpacked, but no blobs of them",
            min(missing),
            "export the image again without --since and --for",
        )
    layers = tuple(replace(layer, blob=layer.blob or blobs[layer.diff_id]) for layer in image.layers)
    return replace(image, layers=layers)


def _blobs(engine: Engine, image: str, needed: Collection[str]) -> dict[str, Descriptor]:
    """The complete blobs of an image's layers, by diff ID."""
    with contextlib.closing(engine.save(image)) as blocks:
        archive = ArchiveReader(blocks)
        for _ in archive.layers():
            pass
    named: dict[str, Descriptor] = {}
    for text in archive.texts.values():
        named |= _named_by(text, archive.texts)
    return {
        key: blob
        for key, blob in named.items()
        if key in needed and archive.blobs.get(blob_path(blob.digest)) == blob.size
    }


def _named_by(text: bytes, texts: dict[str, bytes]) -> dict[str, Descriptor]:
    """The layers of a manifest; none if the blob is not a manifest."""
    try:
        manifest = validated(ImageManifest, text)
        config = validated(ImageConfig, texts[blob_path(manifest.config.digest)])
        return dict(zip(config.rootfs.diff_ids, manifest.layers, strict=True))
    except (ValueError, LookupError):
        return {}
