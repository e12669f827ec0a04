"""What a lock says: every byte that each variant takes in, by checksum (`recipes/NAME.lock.yaml`)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from reprokit.recipe import fields as f
from reprokit.supply.store import key_of

Sha256 = f.Sha256
# Names become paths below folders and parts of addresses: nothing that leaves its folder.
FileName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._+~:%=!@-]*$", max_length=250)]
RelativePath = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._+~:%/=-]*$", max_length=400)]


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Sized(Model):
    """A file of the store: `size` in bytes."""

    sha256: Sha256
    size: int = Field(ge=0)


class AptPackage(Sized):
    """One binary package. `path` is its place in `archive`: `pool/main/c/curl/curl_7.88.1-10_amd64.deb` in `debian`.

    Archives that have no name of their own in `reprokit.config.archives` are locked with their `url`.
    """

    name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9+.-]+$")]
    # With an epoch, unlike other versions (deb-version(7)): 4:12.2.0-3.
    version: Annotated[str, StringConstraints(pattern=r"^[0-9A-Za-z][0-9A-Za-z.+~:-]*$", max_length=100)]
    architecture: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+$")]
    archive: f.Name
    path: RelativePath
    url: f.HttpUrl | None = None


class Bootstrap(Model):
    """A base made of a distribution's own packages: the suite and every package in it.

    `as_of` is the newest date of the package lists that they came from, as `20261121T101500Z`.
    """

    distribution: f.Name
    suite: f.Name
    architecture: str
    as_of: str = ""
    packages: tuple[AptPackage, ...]


class Base(Model):
    """The image that a variant starts from: what a registry has by digest, or a bootstrap."""

    reference: f.ImageRef
    digest: Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")] | None = None
    bootstrap: Bootstrap | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Base:
        if (self.digest is None) == (self.bootstrap is None):
            raise ValueError("a base is locked either by `digest` or by `bootstrap`")
        return self


class Distribution(Sized):
    """One wheel, or one sdist where `file` says so. `name` is canonical (PEP 503)."""

    name: f.Name
    version: Annotated[str, StringConstraints(pattern=r"^[0-9A-Za-z][0-9A-Za-z.+!_-]*$")]
    file: FileName


class GitCommit(Model):
    """A commit that a build checks out, of a source or of a submodule at any depth, and the tree that it must have."""

    url: f.GitUrl
    commit: f.Commit
    tree: f.Commit


class PlainFile(Sized):
    """A file by its addresses, which all give the same bytes."""

    name: FileName
    urls: tuple[f.HttpUrl, ...] = Field(min_length=1)


class CondaPackage(Sized):
    """One conda package; `channel` is its short name (`conda-forge`)."""

    channel: f.Name
    subdir: Literal["linux-64", "linux-aarch64", "noarch"]
    name: f.Name
    version: f.Line
    build: f.Line
    file: FileName


class Section(Model):
    """What one kind of input was resolved from, as a hash: the section is stale where the recipe now says another."""

    base: Sha256
    apt: Sha256
    wheels: Sha256
    git: Sha256
    files: Sha256
    conda: Sha256


class VariantLock(Model):
    """All that one variant takes in. `apt_as_of` is the newest date of the package lists that `apt` came from."""

    reprokit: str
    inputs: Section
    python: str
    glibc: str
    machine: str
    base: Base
    apt_as_of: str = ""
    apt: tuple[AptPackage, ...] = ()
    wheels: tuple[Distribution, ...] = ()
    git: tuple[GitCommit, ...] = ()
    files: tuple[PlainFile, ...] = ()
    conda: tuple[CondaPackage, ...] = ()

    @property
    def hash(self) -> str:
        """Names all inputs by their content: it does not change with the version of reprokit that resolved them."""
        base = {"bootstrap": {"as_of"}}
        other = {"reprokit": True, "inputs": True, "apt_as_of": True, "base": base}
        return key_of(self.model_dump(mode="json", exclude=other))  # type: ignore[arg-type]  # IncEx is recursive


class Lock(Model):
    """The lock of a recipe. `data` are the files of its benchmarks, which no build takes in."""

    version: Literal[1] = 1
    recipe: f.Name
    variants: dict[f.Name, VariantLock] = {}
    data: tuple[PlainFile, ...] = ()
