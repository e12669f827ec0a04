"""A lock (`recipes/NAME.lock.yaml`): every byte that each variant takes in, by checksum."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from reprokit.recipe import fields as f
from reprokit.supply.locked_input import LockedInput
from reprokit.supply.store import Store, key_of

Sha256 = f.Sha256
# Names become paths in folders and parts of addresses, and must not lead out of their folder.
FileName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._+~:%=!@-]*$", max_length=250)]
RelativePath = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._+~:%/=-]*$", max_length=400)]


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Sized(Model):
    """A file of the store: `size` in bytes."""

    sha256: Sha256
    size: int = Field(ge=0)

    def locked_input(self, as_of: str = "") -> LockedInput:
        """The file for a download; `as_of` is the date of apt's package lists."""
        raise NotImplementedError


class AptPackage(Sized):
    """One binary package. `path` is its place in `archive`: `pool/main/c/curl/curl_7.88.1-10_amd64.deb` in `debian`.

    Packages of archives without a name in `reprokit.config.archives` have a `url`.
    """

    name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9+.-]+$")]
    # With an epoch, unlike other versions (deb-version(7)): 4:12.2.0-3.
    version: Annotated[str, StringConstraints(pattern=r"^[0-9A-Za-z][0-9A-Za-z.+~:-]*$", max_length=100)]
    architecture: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+$")]
    archive: f.Name
    path: RelativePath
    url: f.HttpUrl | None = None

    def locked_input(self, as_of: str = "") -> LockedInput:
        fields = {"archive": self.archive, "path": self.path, "as_of": as_of}
        urls = (self.url,) if self.url else ()
        return LockedInput("apt", f"{self.name} {self.version}", self.sha256, self.size, fields, urls)


class Bootstrap(Model):
    """A base made of a distribution's own packages: the suite and every package in it.

    `as_of` is the newest date of its package lists, as `20261121T101500Z`.
    """

    distribution: f.Name
    suite: f.Name
    architecture: str
    as_of: str = ""
    packages: tuple[AptPackage, ...]


class Base(Model):
    """The image that a variant starts from: a registry's image by digest, or a bootstrap."""

    reference: f.ImageRef
    digest: Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")] | None = None
    bootstrap: Bootstrap | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Base:
        if (self.digest is None) == (self.bootstrap is None):
            raise ValueError("a base is locked either by `digest` or by `bootstrap`")
        return self

    def locked_inputs(self) -> list[LockedInput]:
        """The files of a bootstrap."""
        made = self.bootstrap
        return [package.locked_input(made.as_of) for package in made.packages] if made else []


class Distribution(Sized):
    """One wheel, or one sdist, as `file` shows. `name` is canonical (PEP 503)."""

    name: f.Name
    version: Annotated[str, StringConstraints(pattern=r"^[0-9A-Za-z][0-9A-Za-z.+!_-]*$")]
    file: FileName

    def locked_input(self, as_of: str = "") -> LockedInput:
        fields = {"name": self.name, "version": self.version, "file": self.file}
        return LockedInput("wheels", self.file, self.sha256, self.size, fields)


class GitCommit(Model):
    """A commit that a build checks out, of a source or of a submodule at any depth, and its tree."""

    url: f.GitUrl
    commit: f.Commit
    tree: f.Commit


class PlainFile(Sized):
    """A file by its addresses, which all give the same bytes."""

    name: FileName
    urls: tuple[f.HttpUrl, ...] = Field(min_length=1)

    def locked_input(self, as_of: str = "") -> LockedInput:
        return LockedInput("files", self.name, self.sha256, self.size, {"name": self.name}, self.urls)


class RecordFile(Model):
    """A file of a public record. The record gives an md5; the first fetch checks that and adds the `sha256`."""

    name: FileName
    source: f.DataSource
    urls: tuple[f.HttpUrl, ...] = Field(min_length=1)
    md5: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
    sha256: Sha256 | None = None
    size: int = Field(ge=0)

    def locked_input(self) -> LockedInput:
        known, fields = self.sha256 or "", {"name": self.name}
        return LockedInput("files", self.name, known, self.size, fields, self.urls, self.md5, self.source)


class CondaPackage(Sized):
    """One conda package; `channel` is its short name (`conda-forge`)."""

    channel: f.Name
    subdir: Literal["linux-64", "linux-aarch64", "noarch"]
    name: f.Name
    version: f.Line
    build: f.Line
    file: FileName

    def locked_input(self, as_of: str = "") -> LockedInput:
        fields = {"channel": self.channel, "subdir": self.subdir, "file": self.file}
        return LockedInput("conda", self.file, self.sha256, self.size, fields)


class Section(Model):
    """For each section a hash of what it was resolved from: a section is stale when the recipe's hash differs."""

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
        """A name for all inputs by content, independent of the version of reprokit that resolved them."""
        base = {"bootstrap": {"as_of"}}
        other = {"reprokit": True, "inputs": True, "apt_as_of": True, "base": base}
        return key_of(self.model_dump(mode="json", exclude=other))  # type: ignore[arg-type]  # IncEx is recursive

    def locked_inputs(self) -> list[LockedInput]:
        """Every file, each once. Git commits and base images of a registry are no files."""
        found: Iterable[LockedInput] = [
            *self.base.locked_inputs(),
            *(
                entry.locked_input(self.apt_as_of)
                for section in Section.model_fields
                if section != "base"
                for entry in getattr(self, section)
                if isinstance(entry, Sized)
            ),
        ]
        return list({each.sha256: each for each in found}.values())


class Lock(Model):
    """The lock of a recipe. `data` are the files of its benchmarks, which no build takes in."""

    version: Literal[1] = 1
    recipe: f.Name
    variants: dict[f.Name, VariantLock] = {}
    data: tuple[PlainFile | RecordFile, ...] = ()

    def data_inputs(self) -> list[LockedInput]:
        return [file.locked_input() for file in self.data]

    def completed(self, store: Store) -> Lock:
        """The lock with each sha256 that a fetch has learned."""

        def complete(file: PlainFile | RecordFile) -> PlainFile | RecordFile:
            learned = "" if file.sha256 else file.locked_input().stored(store)
            return file.model_copy(update={"sha256": learned}) if learned else file

        return self.model_copy(update={"data": tuple(map(complete, self.data))})
