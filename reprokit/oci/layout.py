"""The small files of an OCI layout and of Docker's archive, and the tar entries that hold them."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator, Mapping, Sequence

from reprokit.oci.model import (
    DOCKER_MANIFEST,
    INDEX,
    INDEX_TYPE,
    MANIFEST_TYPE,
    OCI_LAYOUT,
    Descriptor,
    Image,
    blob_path,
    digest_of,
)

END = bytes(2 * tarfile.BLOCKSIZE)


def header(path: str, size: int) -> bytes:
    """A tar entry's header, one block at any size; equal entries have equal headers."""
    info = tarfile.TarInfo(path)
    info.size = size
    return info.tobuf(tarfile.GNU_FORMAT)


def padding(size: int) -> bytes:
    """The zeros that fill an entry of `size` bytes up to whole blocks."""
    return bytes(-size % tarfile.BLOCKSIZE)


def layout_files(images: Sequence[Image], annotations: Mapping[str, str] | None = None) -> Iterator[tuple[str, bytes]]:
    """Path and content of every file of an OCI layout except its layers. The index is the last one."""
    entries = []
    for image in images:
        manifest = manifest_of(image)
        descriptor = Descriptor(MANIFEST_TYPE, digest_of(manifest), len(manifest))
        entry = descriptor.json()
        if image.name:
            # containerd and Engine 25 read the name from the first. skopeo and podman choose an image by the second,
            # where a tag alone would be the same for two recipes.
            entry["annotations"] = {
                "io.containerd.image.name": full_name(image.name),
                "org.opencontainers.image.ref.name": image.name,
            }
        entries.append(entry)
        yield blob_path(image.id), image.config
        yield blob_path(descriptor.digest), manifest
    yield OCI_LAYOUT, b'{"imageLayoutVersion":"1.0.0"}'
    index: dict[str, object] = {"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": entries}
    if annotations:
        index["annotations"] = dict(annotations)
    yield INDEX, as_json(index)


def small_entries(images: Sequence[Image]) -> bytes:
    """The tar entries of everything but layers in an archive that any engine loads."""
    files = [*layout_files(images), docker_manifest(images)]
    return b"".join(header(path, len(content)) + content + padding(len(content)) for path, content in files)


def docker_manifest(images: Sequence[Image]) -> tuple[str, bytes]:
    """Docker's manifest over the blobs of an OCI layout. Docker detects the compression of a layer by content."""
    return DOCKER_MANIFEST, as_json(
        [
            {
                "Config": blob_path(image.id),
                "RepoTags": [image.name] if image.name else [],
                "Layers": [blob_path(layer.descriptor.digest) for layer in image.layers],
            }
            for image in images
        ]
    )


def manifest_of(image: Image) -> bytes:
    """The image's OCI manifest."""
    return as_json(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST_TYPE,
            "config": image.config_descriptor.json(),
            "layers": [layer.descriptor.json() for layer in image.layers],
        }
    )


def full_name(name: str) -> str:
    """The name with its registry: `debian:12` is `docker.io/library/debian:12`."""
    first, slash, _ = name.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        return name
    return f"docker.io/{name}" if slash else f"docker.io/library/{name}"


def as_json(value: object) -> bytes:
    """Compact JSON; equal values give equal bytes."""
    return json.dumps(value, separators=(",", ":")).encode()
