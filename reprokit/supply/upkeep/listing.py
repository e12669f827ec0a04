"""What `reprokit store ls` tells of each thing in the store."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from reprokit.supply.kinds.git.store import Commit, folder_of
from reprokit.supply.store import Store
from reprokit.supply.upkeep import inventory
from reprokit.supply.upkeep.names import Names, all_locks, locked, names_of

_UNNAMED = "unnamed"


@dataclass(frozen=True)
class Row:
    """One file or repository. `kind` is that of the mirrors, `git` or `unnamed`; `key` a sha256 or commit.

    `size` in bytes (0 for a repository that is not here), `locks` the labels that name it.
    """

    kind: str
    name: str
    size: int
    key: str
    locks: tuple[str, ...]
    here: bool = True


def everything(store: Store) -> list[Row]:
    """All that is in the store, by kind and name. Raises UsageError where a lock cannot be read."""
    names = names_of(all_locks(store))
    stored = [*inventory.files(store), *inventory.repositories(store)]
    return _sorted(_row(names, each.key, each.size, True) for each in stored)


def of_target(store: Store, text: str) -> list[Row]:
    """All that the lock of `NAME[:VARIANT]` names, here or not. Raises UsageError where there is no such lock."""
    names = locked(text).names
    rows = []
    for each in names.inputs.values():
        rows.append(_row(names, each.sha256, each.size, store.path(each.sha256).exists()))
    for commit in names.commits:
        folder = folder_of(commit, store)
        here = folder.is_dir()
        rows.append(_row(names, commit, inventory.size_below(folder) if here else 0, here))
    return _sorted(rows)


def totals(rows: Iterable[Row]) -> dict[str, tuple[int, int]]:
    """Number and bytes of what is here, by kind."""
    found: dict[str, tuple[int, int]] = {}
    for row in rows:
        if row.here:
            count, size = found.get(row.kind, (0, 0))
            found[row.kind] = (count + 1, size + row.size)
    return found


def _row(names: Names, key: str | Commit, size: int, here: bool) -> Row:
    labels = tuple(names.labels_of(key))
    if isinstance(key, Commit):
        return Row("git", key.name, size, key.commit, labels, here)
    locked = names.inputs.get(key)
    return Row(locked.kind if locked else _UNNAMED, locked.name if locked else "", size, key, labels, here)


def _sorted(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row.kind == _UNNAMED, row.kind, row.name, row.key))
