"""The archive through which an engine loads images, composed entry by entry."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from reprokit.oci.layout import as_json, docker_files, docker_layer, header, layout_files, padding
from reprokit.oci.model import Image, blob_path
from reprokit.oci.store import Form

Entry = tuple[str, int, bytes | str]


def entries(images: Sequence[Image], layers: Mapping[str, int], form: Form) -> Iterator[Entry]:
    """Path, size and content of each entry; of a layer its diff ID in place of the content.

    `layers` are those that the archive has, by diff ID, with their sizes in the form that `form` asks for.
    """
    for path, content in (layout_files if form.layout else docker_files)(images):
        yield path, len(content), content
    blobs = {layer.diff_id: layer.descriptor.digest for image in images for layer in image.layers}
    for diff_id, size in layers.items():
        yield blob_path(blobs[diff_id]) if form.layout else docker_layer(diff_id), size, diff_id


def without_layers(image: Image) -> bytes:
    """Docker's archive of an image whose layers the engine has, without the end mark."""
    files = entries([image], {}, Form.PLAIN)
    return b"".join(header(path, size) + bytes(content) + padding(size) for path, size, content in files)  # type: ignore[arg-type]


def first_layers(image: Image, count: int, label: str, created: str) -> Image:
    """An unnamed image of an image's first layers, which keeps them in the engine until all are loaded.

    Its label `label` is the complete image's ID; `created` is its time as RFC 3339.
    """
    complete = json.loads(image.config)
    config = {
        **{key: complete[key] for key in ("architecture", "os", "variant") if key in complete},
        "created": created,
        "config": {"Labels": {label: image.id}},
        "rootfs": {"type": "layers", "diff_ids": list(image.diff_ids[:count])},
    }
    return Image("", as_json(config), image.layers[:count])
