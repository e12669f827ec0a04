"""A lock (`recipes/NAME.lock.yaml`): all inputs of each variant, by checksum."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal, get_origin

from pydantic import (
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)

from reprokit.recipe import fields as f
from reprokit.supply.locked_input import Commit, LockedInput
from reprokit.supply.store import Store, key_of
from reprokit.untrusted.model import FrozenModel

Sha256 = f.Sha256
# Names become paths in folders and parts of addresses, and must not lead out of their folder.
FileName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._+~:%=!@-]*$", max_length=250)]
RelativePath = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._+~:%/=-]*$", max_length=400)]


_Version = Annotated[str, StringConstraints(pattern=r"^([0-9][0-9A-Za-z.]*)?$", max_length=20)]
_Machine = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_]*$", max_length=20)]
_Time = Annotated[str, StringConstraints(pattern=r"^([0-9]{8}T[0-9]{6}Z)?$")]
_CondaText = Annotated[str, StringConstraints(pattern=r"^[0-9A-Za-z._+!-]+$", max_length=200)]
_Size = Annotated[int, Field(ge=0, le=1 << 50)]  # bytes


class Model(FrozenModel):
    model_config = ConfigDict(strict=True)


class Sized(Model):
    """A file of the store: `size` in bytes."""

    sha256: Sha256
    size: _Size

    def locked_input(self, as_of: str = "") -> LockedInput:
        """The file for a download; `as_of` is the date of apt's package lists."""
        raise NotImplementedError


class Installed(Sized):
    """A file that these `blocks` install."""

    blocks: tuple[f.Name, ...] = ()


class AptPackage(Installed):
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
    architecture: _Machine
    as_of: _Time = ""
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


class Distribution(Installed):
    """One wheel, or one sdist, as `file` shows. `name` is canonical (PEP 503).

    `build_only` files are for building sdists, and are not installed.
    """

    name: f.Name
    version: Annotated[str, StringConstraints(pattern=r"^[0-9A-Za-z][0-9A-Za-z.+!_-]*$")]
    file: FileName
    build_only: bool = False

    def locked_input(self, as_of: str = "") -> LockedInput:
        fields = {"name": self.name, "version": self.version, "file": self.file}
        return LockedInput("wheels", self.file, self.sha256, self.size, fields)


class GitCommit(Model):
    """A commit that a build uses, of a source, a requirement or a submodule at any depth, and its tree.

    `ref` is the tag or branch of a requirement that pointed to the commit at lock time.
    """

    url: f.GitUrl
    commit: f.Commit
    tree: f.Commit
    ref: f.Line = ""

    @property
    def address(self) -> Commit:
        return Commit(self.url, self.commit)


class PlainFile(Sized):
    """A file by its addresses, which all serve the same bytes."""

    name: FileName
    urls: tuple[f.HttpUrl, ...] = Field(min_length=1)

    def locked_input(self, as_of: str = "") -> LockedInput:
        return LockedInput("files", self.name, self.sha256, self.size, {"name": self.name}, self.urls)


class RecordFile(Model):
    """A file of a public record. The record lists an md5; the first fetch checks it and adds the `sha256`."""

    name: FileName
    source: f.DataSource
    urls: tuple[f.HttpUrl, ...] = Field(min_length=1)
    md5: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
    sha256: Sha256 | None = None
    size: _Size

    def locked_input(self) -> LockedInput:
        fields = {"name": self.name}
        return LockedInput("files", self.name, self.sha256 or "", self.size, fields, self.urls, self.md5, self.source)


class CondaPackage(Sized):
    """One conda package; `channel` is its short name (`conda-forge`)."""

    channel: f.Name
    subdir: Literal["linux-64", "linux-aarch64", "noarch"]
    name: f.Name
    version: _CondaText
    build: _CondaText
    file: FileName

    def locked_input(self, as_of: str = "") -> LockedInput:
        fields = {"channel": self.channel, "subdir": self.subdir, "file": self.file}
        return LockedInput("conda", self.file, self.sha256, self.size, fields)


class VariantLock(Model):
    """All inputs of one variant.

    `apt_as_of` is the newest date of the package lists that `apt` came from.
    `inputs` has a hash of each section's requests: a section is stale if the recipe's hash differs.
    """

    reprokit: Annotated[str, StringConstraints(pattern=r"^[0-9A-Za-z.+_-]+$", max_length=60)]
    inputs: dict[f.Name, Sha256]
    python: _Version
    glibc: _Version
    machine: _Machine
    base: Base
    apt_as_of: _Time = ""
    apt: tuple[AptPackage, ...] = ()
    wheels: tuple[Distribution, ...] = ()
    git: tuple[GitCommit, ...] = ()
    files: tuple[PlainFile, ...] = ()
    conda: tuple[CondaPackage, ...] = ()

    @property
    def hash(self) -> str:
        """A name for all inputs of the image by content, independent of the version of reprokit that resolved them."""
        dates = {"apt_as_of": True, "base": {"bootstrap": {"as_of"}}}
        exclude: Any = {"reprokit": True, "inputs": True, **dates}
        return key_of(self.model_dump(mode="json", exclude_defaults=True, exclude=exclude))

    def locked_inputs(self) -> list[LockedInput]:
        """Every file, each once. Git commits and base images of a registry are no files."""
        files: Iterable[LockedInput] = [
            *self.base.locked_inputs(),
            *(
                entry.locked_input(self.apt_as_of)
                for kind in KINDS
                for entry in getattr(self, kind)
                if isinstance(entry, Sized)
            ),
        ]
        return list({file.sha256: file for file in files}.values())


KINDS = tuple(name for name, field in VariantLock.model_fields.items() if get_origin(field.annotation) is tuple)


class Lock(Model):
    """The lock of a recipe. `data` are the files of its benchmarks, which no build uses."""

    version: Literal[1] = 1
    recipe: f.Name
    variants: dict[f.Name, VariantLock] = Field(default={})
    data: tuple[PlainFile | RecordFile, ...] = ()

    def changes(self, other: Lock) -> list[tuple[str, str, str]]:
        """The differences from another lock: names and both values, empty if there is none."""
        before, after = dict(self._values()), dict(other._values())
        names = sorted(before.keys() | after.keys())
        return [(n, before.get(n, ""), after.get(n, "")) for n in names if before.get(n) != after.get(n)]

    def _values(self) -> Iterator[tuple[str, str]]:
        for name, variant in self.variants.items():
            yield f"{name}: base {variant.base.reference}", variant.base.digest or ""
            for entry in (entry for kind in KINDS for entry in getattr(variant, kind)):
                if isinstance(entry, GitCommit):
                    yield f"{name}: {entry.url}", entry.commit
                else:
                    yield f"{name}: {entry.name}", f"{getattr(entry, 'version', '')} {entry.sha256[:12]}".strip()
            for deb in variant.base.locked_inputs():
                yield f"{name}: base {deb.name.split()[0]}", f"{deb.name.partition(' ')[2]} {deb.sha256[:12]}"
        for file in self.data:
            yield f"data {file.name}", str(file.sha256 or getattr(file, "md5", ""))

    def data_inputs(self) -> list[LockedInput]:
        return [file.locked_input() for file in self.data]

    def completed(self, store: Store) -> Lock:
        """The lock with each sha256 that a fetch computed."""

        def complete(file: PlainFile | RecordFile) -> PlainFile | RecordFile:
            learned = "" if file.sha256 else file.locked_input().stored(store)
            return file.model_copy(update={"sha256": learned}) if learned else file

        return self.model_copy(update={"data": tuple(map(complete, self.data))})
