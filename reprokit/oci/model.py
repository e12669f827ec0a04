"""Descriptors, layers and images, as the OCI image specification defines them.

The diff ID, the digest of its uncompressed tar, identifies a layer across machines. A blob has the digest of its bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, Field, StringConstraints

from reprokit.untrusted.documents import parsed, validated

OCI_LAYOUT, INDEX, DOCKER_MANIFEST = "oci-layout", "index.json", "manifest.json"
BLOBS = "blobs/sha256/"
CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
INDEX_TYPE = "application/vnd.oci.image.index.v1+json"
LAYER_TYPE = "application/vnd.oci.image.layer.v1.tar"
ZSTD_LAYER_TYPE, GZIP_LAYER_TYPE = f"{LAYER_TYPE}+zstd", f"{LAYER_TYPE}+gzip"

Digest = Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]
Size = Annotated[int, Field(ge=0, lt=1 << 63)]


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
    """A blob by its digest; `size` in bytes. The documents below check it."""

    media_type: Annotated[str, Field(alias="mediaType")]
    digest: Digest
    size: Size

    def json(self) -> dict[str, Any]:
        return {"mediaType": self.media_type, "digest": self.digest, "size": self.size}


@dataclass(frozen=True)
class Layer:
    """A layer of `size` uncompressed bytes. `blob` is None if the layer's content is excluded."""

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
    def settings(self) -> dict[str, Any]:
        """The settings of the image's containers: ENV, LABEL, WORKDIR, ...; empty if the config is not valid."""
        config = parsed(self.config)
        settings = config.get("config") if isinstance(config, dict) else None
        return settings if isinstance(settings, dict) else {}

    @property
    def labels(self) -> dict[str, str]:
        """Raises ValueError if the config is not valid."""
        settings = validated(ImageConfig, self.config).config
        return (settings.labels if settings else None) or {}

    @property
    def config_descriptor(self) -> Descriptor:
        return Descriptor(CONFIG_TYPE, self.id, len(self.config))


class ImageIndex(BaseModel):
    """`index.json`, as far as it is used."""

    manifests: tuple[Descriptor, ...]


class ImageManifest(BaseModel):
    """An image's manifest, as far as it is used."""

    config: Descriptor
    layers: tuple[Descriptor, ...]


class _RootFs(BaseModel):
    diff_ids: tuple[Digest, ...]


class _Settings(BaseModel):
    labels: Annotated[dict[str, str] | None, Field(alias="Labels")] = None


class ImageConfig(BaseModel):
    """An image's config, as far as it is used."""

    rootfs: _RootFs
    config: _Settings | None = None


def ambiguous(config: bytes) -> str:
    """A key of a config that appears twice or in another case, "" if there is none.

    Engines ignore the case of keys, and join objects whose key appears twice.
    """
    twice: list[str] = []

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        counts = Counter(key for key, _ in pairs)
        twice.extend(key for key, count in counts.items() if count > 1)
        return dict(pairs)

    value = json.loads(config, object_pairs_hook=once)
    settings, rootfs = value.get("config") or {}, value.get("rootfs") or {}
    # Compared with the keys that reprokit reads: in another case, only engines would read them.
    for part, keys in ((value, ("config", "rootfs")), (settings, ("Labels",)), (rootfs, ("diff_ids",))):
        folded, spelt = Counter(map(str.casefold, part)), {key.casefold(): key for key in keys}
        twice += [key for key in part if folded[key.casefold()] > 1 or spelt.get(key.casefold(), key) != key]
    return twice[0] if twice else ""
