"""Descriptors, layers and images, as the OCI image specification defines them.

A layer is known across machines by its diff ID, the digest of its uncompressed tar; a blob by the digest of its bytes.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field, StringConstraints

OCI_LAYOUT, INDEX, DOCKER_MANIFEST = "oci-layout", "index.json", "manifest.json"
BLOBS = "blobs/sha256/"
CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
INDEX_TYPE = "application/vnd.oci.image.index.v1+json"
LAYER_TYPE = "application/vnd.oci.image.layer.v1.tar"
ZSTD_LAYER_TYPE, GZIP_LAYER_TYPE = f"{LAYER_TYPE}+zstd", f"{LAYER_TYPE}+gzip"

Digest = Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]
Size = Annotated[int, Field(ge=0)]


def digest_of(content: bytes) -> str:
    """`sha256:HEX` of some bytes."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def hex_of(digest: str) -> str:
    """The digest without its algorithm."""
    return digest.removeprefix("sha256:")


def blob_path(digest: str) -> str:
    """The path of a blob in an OCI layout."""
    return BLOBS + hex_of(digest)


@dataclass(frozen=True)
class Descriptor:
    """A blob by its digest; `size` in bytes."""

    media_type: str
    digest: str
    size: int

    def json(self) -> dict[str, Any]:
        return {"mediaType": self.media_type, "digest": self.digest, "size": self.size}


@dataclass(frozen=True)
class Layer:
    """A layer of `size` uncompressed bytes. `blob` is None where the layer's content is excluded."""

    diff_id: str
    size: int
    blob: Descriptor | None

    @property
    def descriptor(self) -> Descriptor:
        """The layer's entry in a manifest; an excluded layer is described as its uncompressed tar."""
        return self.blob or Descriptor(LAYER_TYPE, self.diff_id, self.size)


@dataclass(frozen=True)
class Image:
    """An image under its full name (`reprokit/faith:cuda`); `config` is the engine's own, byte for byte."""

    name: str
    config: bytes
    layers: tuple[Layer, ...]

    @property
    def id(self) -> str:
        """The digest of the config, which graph-driver stores call the image ID."""
        return digest_of(self.config)

    @property
    def diff_ids(self) -> tuple[str, ...]:
        return tuple(layer.diff_id for layer in self.layers)

    @property
    def config_descriptor(self) -> Descriptor:
        return Descriptor(CONFIG_TYPE, self.id, len(self.config))
