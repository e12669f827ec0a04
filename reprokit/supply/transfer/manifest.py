"""What an archive of inputs says of itself: every entry after it, in order, by size and checksum.

An archive is a tar compressed with zstd, `manifest.json` first. It has no other freedom: names follow from the
manifest, and each entry's header is the one that its name and size give. So nothing in it can leave a folder.
"""

from __future__ import annotations

import tarfile
from typing import Annotated, Literal

from pydantic import StringConstraints, model_validator

from reprokit.recipe import fields as f
from reprokit.supply.lock.file import SUFFIX
from reprokit.supply.lock.model import Model, Sized

NAME = "manifest.json"
Digest = Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]
_BLOCK = 512


class Text(Sized):
    """A recipe's file, or its lock."""

    recipe: f.Name
    lock: bool

    @property
    def path(self) -> str:
        return f"recipes/{self.recipe}{SUFFIX if self.lock else '.yaml'}"


class File(Sized):
    """A file of the store."""

    @property
    def path(self) -> str:
        return f"sha256/{self.sha256[:2]}/{self.sha256}"


class Repository(Sized):
    """A commit's objects as a git pack, and the commits whose parents are not in it."""

    url: f.GitUrl
    commit: f.Commit
    shallow: tuple[f.Commit, ...]

    @property
    def path(self) -> str:
        return f"git/{self.url.partition('://')[2]}/{self.commit}.pack"


class Image(Sized):
    """A base image as the engine saves it; `layers` are those of its file system, by their uncompressed content."""

    digest: Digest
    layers: tuple[Digest, ...]

    @property
    def path(self) -> str:
        return f"images/{self.digest.replace(':', '-')}.tar"


Entry = Text | File | Repository | Image


class Manifest(Model):
    """`targets` are the `NAME:VARIANT`s whose inputs the archive holds whole."""

    format: Literal[1] = 1
    reprokit: f.Line
    targets: tuple[f.Line, ...]
    texts: tuple[Text, ...]
    files: tuple[File, ...]
    repositories: tuple[Repository, ...]
    images: tuple[Image, ...]

    @model_validator(mode="after")
    def _each_once(self) -> Manifest:
        if len({entry.path for entry in self.entries}) != len(self.entries):
            raise ValueError("an entry is named twice")
        return self

    @property
    def entries(self) -> tuple[Entry, ...]:
        """In the archive's order."""
        return (*self.texts, *self.files, *self.repositories, *self.images)

    @property
    def size(self) -> int:
        """Bytes of all entries."""
        return sum(entry.size for entry in self.entries)


def header(path: str, size: int) -> bytes:
    """The header of an entry; equal entries have equal headers."""
    info = tarfile.TarInfo(path)
    info.size = size
    return info.tobuf(tarfile.PAX_FORMAT)


def padding(size: int) -> bytes:
    """What fills an entry of `size` bytes up to whole blocks."""
    return bytes(-size % _BLOCK)


END = bytes(2 * _BLOCK)
