"""The blobs that a containerd store keeps its layers in: an image whose manifest names others would be incomplete.

Such an image runs, and can be neither exported nor pushed (moby #49473, PR #53615). The engine tells its blobs only in
what it saves.
"""

from __future__ import annotations

import contextlib
import tarfile
from collections.abc import Collection
from dataclasses import replace

from reprokit.bundle.model import BLOBS, Descriptor, Image, blob_path
from reprokit.bundle.target import Form, Target, diff_ids
from reprokit.engine import Engine
from reprokit.errors import EngineError
from reprokit.untrusted.documents import parsed
from reprokit.untrusted.limits import DOCUMENTS
from reprokit.untrusted.tar import Stream, members

_MOST_JSON = 4 << 20


def completed(image: Image, there: Target) -> Image:
    """The image with the engine's own blobs in place of layers that were left out. Raises EngineError."""
    ids = diff_ids(image)
    last = max((n for n, layer in enumerate(image.layers, 1) if layer.blob is None), default=0)
    if there.form is not Form.LAYOUT or not last:
        return image
    wanted = {layer.diff_id for layer in image.layers if layer.blob is None}
    found = _blobs(there.engine, there.chains[ids[:last]], wanted)
    if missing := wanted - set(found):
        raise EngineError(
            f"the engine has {len(missing)} layers of {image.name} unpacked, and not their blobs",
            min(missing),
            "export the image again without --since and --for",
        )
    layers = tuple(replace(layer, blob=layer.blob or found[layer.diff_id]) for layer in image.layers)
    return replace(image, layers=layers)


def _blobs(engine: Engine, image: str, wanted: Collection[str]) -> dict[str, Descriptor]:
    """Those of an image's layers that the engine has whole, by diff id."""
    texts: dict[str, bytes] = {}
    sizes: dict[str, int] = {}
    total = 0
    with contextlib.closing(engine.save(image)) as blocks:
        stream = Stream(blocks)
        try:
            for member in members(stream):
                sizes[member.name] = member.size
                if member.isreg() and member.name.startswith(BLOBS) and member.size <= _MOST_JSON:
                    content = b"".join(stream.body(member.size))
                    if content[:1] == b"{":
                        total += len(content)
                        DOCUMENTS.check(total, "bytes of JSON in an engine's archive", image)
                        texts[member.name] = content
        except (tarfile.TarError, EOFError) as error:
            raise EngineError(f"the engine's archive is damaged: {error}", image) from None
    named: dict[str, Descriptor] = {}
    for text in texts.values():
        named |= _of_manifest(text, texts)
    return {
        key: blob for key, blob in named.items() if key in wanted and sizes.get(blob_path(blob.digest)) == blob.size
    }


def _of_manifest(text: bytes, texts: dict[str, bytes]) -> dict[str, Descriptor]:
    """Layers that a blob names, if it is a manifest."""
    try:
        value = parsed(text)
        ids = parsed(texts[blob_path(value["config"]["digest"])])["rootfs"]["diff_ids"]
        blobs = [Descriptor(each["mediaType"], each["digest"], each["size"]) for each in value["layers"]]
        return dict(zip(ids, blobs, strict=True))
    except (ValueError, LookupError, TypeError, AttributeError):
        return {}
