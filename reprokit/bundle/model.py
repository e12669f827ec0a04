"""What a bundle holds: images, their layers, and reprokit's own metadata beside them.

A bundle is a tar of regular files: an OCI image layout (`oci-layout`, `index.json`, `blobs/sha256/HEX`), Docker's
`manifest.json` pointing at the same blobs, and `reprokit.json`. A layer is known across machines by its diff id, the
digest of its uncompressed tar; a blob by the digest of the bytes that stand in the bundle.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from reprokit.recipe import fields as f
from reprokit.supply.lock.model import Model

OCI_LAYOUT, INDEX, DOCKER_MANIFEST = "oci-layout", "index.json", "manifest.json"
METADATA, SIGNATURE = "reprokit.json", "reprokit.json.sig"
BLOBS = "blobs/sha256/"
CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
INDEX_TYPE = "application/vnd.oci.image.index.v1+json"
LAYER_TYPE = "application/vnd.oci.image.layer.v1.tar"
ZSTD_LAYER_TYPE = f"{LAYER_TYPE}+zstd"
FORMAT = 1

Digest = Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]
Size = Annotated[int, Field(ge=0)]


def digest_of(content: bytes) -> str:
    """`sha256:HEX` of some bytes."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def blob_path(digest: str) -> str:
    """Where a blob stands in a bundle."""
    return BLOBS + digest.removeprefix("sha256:")


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
    """A layer of `size` uncompressed bytes. `blob` is None where its content is left out of the bundle."""

    diff_id: str
    size: int
    blob: Descriptor | None

    @property
    def descriptor(self) -> Descriptor:
        """How a manifest names the layer: one that is left out as the uncompressed tar, which is all that is known."""
        return self.blob or Descriptor(LAYER_TYPE, self.diff_id, self.size)


@dataclass(frozen=True)
class Image:
    """An image under its full name (`reprokit/faith:cuda`); `config` is the engine's own, byte for byte."""

    name: str
    config: bytes
    layers: tuple[Layer, ...]

    @property
    def id(self) -> str:
        """The digest of the config, which graph-driver stores call the image id."""
        return digest_of(self.config)

    @property
    def config_descriptor(self) -> Descriptor:
        return Descriptor(CONFIG_TYPE, self.id, len(self.config))


class Described(Model):
    """One image in `reprokit.json`. What only recipes have is empty for other images; sizes are in bytes.

    `id` is the digest of the config, `size` that of all layers uncompressed, `packed` that of the blobs of its layers
    which are in this bundle. `inputs` is the hash that tells whether a rebuild would give something else.
    """

    name: f.Line
    id: Digest
    size: Size
    packed: Size
    recipe: str = ""
    variant: str = ""
    inputs: str = ""
    pins: dict[str, str] = Field(default={})
    min_driver: str = ""
    compute_capabilities: tuple[str, ...] = ()
    recipe_text: str = ""
    lock_text: str = ""


class Part(Model):
    """A file of the bundle that is no image: a workspace or inputs of the store, each a tar compressed with zstd."""

    kind: Literal["workspace", "store"]
    name: f.Line
    path: Annotated[str, StringConstraints(pattern=r"^(workspaces|store)/[A-Za-z0-9][A-Za-z0-9._-]*$")]
    digest: Digest
    size: Size


class Metadata(Model):
    """`reprokit.json`. `created` is UTC, as `20261121T101500Z`; `absent` are the diff ids of layers left out."""

    format: Literal[1] = 1
    reprokit: f.Line
    created: Annotated[str, StringConstraints(pattern=r"^\d{8}T\d{6}Z$")]
    images: tuple[Described, ...]
    absent: tuple[Digest, ...] = ()
    parts: tuple[Part, ...] = ()
