"""The names that locks give to the content of the store, and the rows of `reprokit store ls`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from reprokit import paths
from reprokit.errors import UsageError
from reprokit.recipe.find import split, targets
from reprokit.supply.kinds.git.store import folder_of
from reprokit.supply.lock import file as lock_file
from reprokit.supply.lock.model import Lock
from reprokit.supply.locked_input import Commit, LockedInput
from reprokit.supply.store import Store
from reprokit.supply.upkeep import inventory

_UNNAMED = "unnamed"


@dataclass
class Names:
    """Inputs by key, and commits, each with the labels (`recipe:variant`, `recipe` for its data) that name it.

    `labels` has commits as the store lists them.
    """

    inputs: dict[str, LockedInput] = field(default_factory=dict)
    commits: set[Commit] = field(default_factory=set)
    labels: dict[str | Commit, list[str]] = field(default_factory=dict)

    def add(self, label: str, inputs: Iterable[LockedInput], commits: Iterable[Commit] = ()) -> None:
        for each in inputs:
            self.inputs.setdefault(each.key, each)
            self.labels.setdefault(each.key, []).append(label)
        for commit in commits:
            self.commits.add(commit)
            self.labels.setdefault(commit.in_store, []).append(label)

    def labels_of(self, key: str | Commit) -> list[str]:
        return sorted(set(self.labels.get(key.in_store if isinstance(key, Commit) else key, [])))


def all_locks(store: Store) -> list[Lock]:
    """The locks of every recipe folder, and the others that were used, with each sha256 that a fetch has learned.

    Raises UsageError for a lock that cannot be read.
    """
    # Recipes with files beside them are in folders of their own.
    patterns = (f"*{lock_file.SUFFIX}", f"*/*{lock_file.SUFFIX}")
    locks = [path for folder in paths.recipe_dirs() for each in patterns for path in folder.glob(each)]
    locks = [path for path in locks if not path.parent.is_symlink()] + store.used_locks()
    places = {path.parent.resolve() / path.name for path in locks}
    return [lock_file.read(path).completed(store) for path in sorted(places)]


def names_of(locks: Iterable[Lock]) -> Names:
    """All that these locks name."""
    found = Names()
    for lock in locks:
        for name, variant in lock.variants.items():
            found.add(f"{lock.recipe}:{name}", variant.locked_inputs(), (commit.address for commit in variant.git))
        found.add(lock.recipe, lock.data_inputs())
    return found


def locked(text: str) -> tuple[Path, Lock]:
    """The recipe's file and the matching variants of its lock. Raises UsageError if there is none.

    The data of benchmarks belongs to the recipe, not to a single variant.
    """
    chosen = targets(text)
    name, recipe = chosen[0].recipe.name, chosen[0].path
    path = lock_file.lock_path(recipe)
    try:
        lock = lock_file.read(path)
    except FileNotFoundError:
        raise UsageError(f"{name} has no lock", str(path), f"`reprokit lock {name}` writes it") from None
    names = {target.variant_name for target in chosen}
    variants = {name: variant for name, variant in lock.variants.items() if name in names}
    if not variants:
        raise UsageError(f"{text} is not in its lock", str(path), f"`reprokit lock {text}` adds it")
    return recipe, lock.model_copy(update={"variants": variants, "data": () if split(text)[1] else lock.data})


@dataclass(frozen=True)
class StoreRow:
    """One file or repository. `kind` is that of the mirrors, `git` or `unnamed`; `key` a sha256 or commit.

    `size` in bytes (0 for a missing repository), `locks` the labels that name it.
    """

    kind: str
    name: str
    size: int
    key: str
    locks: tuple[str, ...]
    here: bool = True


def everything(store: Store) -> list[StoreRow]:
    """Everything in the store, by kind and name. Raises UsageError if a lock cannot be read."""
    names = names_of(all_locks(store))
    stored = [*inventory.files(store), *inventory.repositories(store)]
    return _sorted(_row(names, each.key, each.size, True) for each in stored)


def of_target(store: Store, text: str) -> list[StoreRow]:
    """Everything that the lock of `NAME[:VARIANT]` names, present or not. Raises UsageError without such a lock."""
    names = names_of([locked(text)[1]])
    rows = []
    for each in names.inputs.values():
        rows.append(_row(names, each.key, each.size, bool(each.stored(store))))
    for commit in names.commits:
        folder = folder_of(commit, store)
        here = folder.is_dir()
        rows.append(_row(names, commit, inventory.size_below(folder) if here else 0, here))
    return _sorted(rows)


def totals(rows: Iterable[StoreRow]) -> dict[str, tuple[int, int]]:
    """Number and bytes of present entries, by kind."""
    found: dict[str, tuple[int, int]] = {}
    for row in rows:
        if row.here:
            count, size = found.get(row.kind, (0, 0))
            found[row.kind] = (count + 1, size + row.size)
    return found


def _row(names: Names, key: str | Commit, size: int, here: bool) -> StoreRow:
    labels = tuple(names.labels_of(key))
    if isinstance(key, Commit):
        return StoreRow("git", key.name, size, key.commit, labels, here)
    locked = names.inputs.get(key)
    return StoreRow(locked.kind if locked else _UNNAMED, locked.name if locked else "", size, key, labels, here)


def _sorted(rows: Iterable[StoreRow]) -> list[StoreRow]:
    return sorted(rows, key=lambda row: (row.kind == _UNNAMED, row.kind, row.name, row.key))
