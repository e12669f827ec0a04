"""The files and git commits that a lock names, with their known addresses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from reprokit.recipe.fields import repository_name
from reprokit.supply.store import Store, key_of

_LEARNED = "records"


@dataclass(frozen=True)
class LockedInput:
    """One file. `kind` is that of the user's mirrors (`apt`, `wheels`, `conda`, `files`), `size` in bytes.

    `fields` fill in the placeholders of mirrors (`{archive}`, `{path}`, ...); `urls` are the lock's own addresses.
    `record` is the source of a file that is known only by its md5.
    """

    kind: str
    name: str
    sha256: str
    size: int
    fields: Mapping[str, str] = field(default_factory=dict)
    urls: tuple[str, ...] = ()
    md5: str = ""
    record: str = ""

    @property
    def key(self) -> str:
        """64 hex digits: the sha256, or a stand-in until it is known."""
        return self.sha256 or key_of([self.record, self.name, self.md5, self.size])

    def stored(self, store: Store) -> str:
        """The file's sha256 if the store has a file of this size; `reprokit store verify` reads the bytes."""
        sha256 = self.sha256 or str(store.remembered(_LEARNED, self.key) or "")
        path = store.path(sha256)
        return sha256 if len(sha256) == 64 and path.is_file() and path.stat().st_size == self.size else ""

    def learned(self, store: Store, sha256: str) -> None:
        """Remember the sha256 of a file that is known by its md5."""
        store.remember(_LEARNED, self.key, sha256)


@dataclass(frozen=True, order=True)
class Commit:
    """A commit of the repository at an https:// or ssh:// address without `.git`."""

    url: str
    commit: str

    @property
    def name(self) -> str:
        """`host/owner/repository`."""
        return repository_name(self.url)

    @property
    def in_store(self) -> Commit:
        """The commit as the store lists it, which keeps the repository's name but not whether it came over ssh."""
        return Commit(f"https://{self.name}", self.commit)
