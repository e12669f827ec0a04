"""The content of a bundle: images, their layers, and reprokit's own metadata.

A bundle is a tar of regular files: an OCI image layout, Docker's `manifest.json` over the same blobs, `reprokit.json`,
and the extras that it names.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from pydantic import Base64Bytes, Field, StringConstraints

from reprokit.oci.layout import docker_manifest, layout_files
from reprokit.oci.model import Digest, Image, Size, digest_of
from reprokit.recipe import fields as f
from reprokit.supply.lock.model import Model, Sized

METADATA, SIGNATURE = "reprokit.json", "reprokit.json.sig"
# The index has the digest of `reprokit.json` under this key, so that no bit of it can change unnoticed.
METADATA_DIGEST = "reprokit.metadata"


class ImageMetadata(Model):
    """One image in `reprokit.json`. Fields that only recipes have are empty for other images; sizes are in bytes.

    `id` is the digest of the config, `size` that of all layers uncompressed, `packed` that of the layers' blobs in this
    bundle. `canonical` is the canonical digest, None if a layer cannot be understood. `inputs` is the hash of the
    build's inputs.
    """

    name: f.Line
    id: Digest
    canonical: Digest | None = None
    size: Size
    packed: Size = 0
    recipe: str = ""
    variant: str = ""
    inputs: str = ""
    pins: dict[str, str] = Field(default={})
    min_driver: str = ""
    compute_capabilities: tuple[str, ...] = ()
    recipe_text: str = ""
    lock_text: str = ""


def part_path(kind: str, name: str) -> str:
    """The path of a part in the bundle: its header is one block, which limits a path to 100 bytes."""
    folder, suffix = ("workspaces", ".tar.zst") if kind == "workspace" else ("sbom", ".cdx.json")
    path = f"{folder}/{name}{suffix}"
    return path if len(path) <= 100 else f"{folder}/{hashlib.sha256(name.encode()).hexdigest()}{suffix}"


class Part(Model):
    """A workspace in the bundle, as a tar compressed with zstd, or the SBOM of an image, as CycloneDX JSON."""

    kind: Literal["workspace", "sbom"]
    name: f.Line
    path: Annotated[str, StringConstraints(pattern=r"^(workspaces|sbom)/[A-Za-z0-9][A-Za-z0-9._-]*$")]
    digest: Digest
    size: Size


class RecipeText(Model):
    """A recipe's file and its lock; the lock is empty if it does not belong to the image."""

    name: f.RecipeName
    recipe: str
    lock: str


class BesideFile(Model):
    """A file that a recipe names, such as a patch; `path` is below the folder of the recipe."""

    recipe: f.Name
    path: f.SubmodulePath
    content: Base64Bytes


class GitPack(Sized):
    """A commit's objects as a git pack; `shallow` are the commits whose parents are not in it."""

    url: f.GitUrl
    commit: f.Commit
    shallow: tuple[f.Commit, ...]


class BundledInputs(Model):
    """Everything that the locks of `targets` (`NAME:VARIANT`) name, to build them without a network.

    Files and packs are blobs of the bundle. `bases` are registry digests; each base is an image of the bundle, named by
    `image.base.carried_name`.
    """

    targets: tuple[f.Line, ...]
    recipes: tuple[RecipeText, ...]
    files: tuple[Sized, ...]
    packs: tuple[GitPack, ...]
    bases: tuple[Digest, ...]

    @property
    def blobs(self) -> dict[str, int]:
        """The size of each blob, by digest."""
        return {f"sha256:{blob.sha256}": blob.size for blob in (*self.files, *self.packs)}


class Metadata(Model):
    """`reprokit.json`. `created` is UTC, as `20261121T101500Z`; `absent` are the diff IDs of excluded layers.

    `unpacked` are the uncompressed bytes of all layers, each once; 0 except after an export.
    `beside` are the files beside the recipes of images and inputs.
    """

    format: Literal[1] = 1
    reprokit: f.Line
    created: Annotated[str, StringConstraints(pattern=r"^\d{8}T\d{6}Z$")]
    images: tuple[ImageMetadata, ...]
    unpacked: Size = Field(default=0, exclude=True)
    absent: tuple[Digest, ...] = ()
    parts: tuple[Part, ...] = ()
    inputs: BundledInputs | None = None
    beside: tuple[BesideFile, ...] = ()

    def json_bytes(self) -> bytes:
        return self.model_dump_json(indent=1, exclude_none=True).encode()


def small_files(images: Sequence[Image], metadata: bytes) -> Iterator[tuple[str, bytes]]:
    """Path and content of everything but layers and extras; equal images and metadata give equal bytes."""
    yield from layout_files(images, {METADATA_DIGEST: digest_of(metadata)})
    yield METADATA, metadata
    yield docker_manifest(images)
