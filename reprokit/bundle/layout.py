"""The small files of a bundle: OCI's and Docker's manifests over the same blobs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from reprokit.bundle.model import (
    DOCKER_MANIFEST,
    INDEX,
    INDEX_TYPE,
    MANIFEST_TYPE,
    METADATA,
    OCI_LAYOUT,
    Descriptor,
    Image,
    blob_path,
    digest_of,
)

# In the index: the digest of `reprokit.json`, so that no bit of that can change unseen.
METADATA_DIGEST = "reprokit.metadata"


def small_files(images: Sequence[Image], metadata: bytes | None = None) -> Iterator[tuple[str, bytes]]:
    """Path and content of everything but layers, `metadata` as `reprokit.json`; what is equal gives equal bytes."""
    entries = []
    for image in images:
        manifest = manifest_of(image)
        descriptor = Descriptor(MANIFEST_TYPE, digest_of(manifest), len(manifest))
        # containerd and Engine 25 take the name from the first; skopeo and podman choose an image by the second,
        # where a tag alone would be the same for two recipes.
        annotations = {
            "io.containerd.image.name": whole_name(image.name),
            "org.opencontainers.image.ref.name": image.name,
        }
        entries.append({**descriptor.json(), "annotations": annotations})
        yield blob_path(image.id), image.config
        yield blob_path(descriptor.digest), manifest
    yield OCI_LAYOUT, b'{"imageLayoutVersion":"1.0.0"}'
    index: dict[str, object] = {"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": entries}
    if metadata is not None:
        index["annotations"] = {METADATA_DIGEST: digest_of(metadata)}
        yield METADATA, metadata
    yield INDEX, _json(index)
    docker = [
        {
            "Config": blob_path(image.id),
            "RepoTags": [image.name],
            "Layers": [blob_path(layer.descriptor.digest) for layer in image.layers],
        }
        for image in images
    ]
    yield DOCKER_MANIFEST, _json(docker)


def manifest_of(image: Image) -> bytes:
    """The image's OCI manifest."""
    return _json(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST_TYPE,
            "config": image.config_descriptor.json(),
            "layers": [layer.descriptor.json() for layer in image.layers],
        }
    )


def whole_name(name: str) -> str:
    """With its registry: `debian:12` is `docker.io/library/debian:12`."""
    first, slash, _ = name.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        return name
    return f"docker.io/{name}" if slash else f"docker.io/library/{name}"


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
