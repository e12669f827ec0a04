"""The names that locks give to the content of the store, and the rows of `reprokit store ls`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from reprokit import paths
from reprokit.errors import UsageError
from reprokit.recipe.find import targets
from reprokit.supply.kinds.git.store import Commit, folder_of
from reprokit.supply.lock import file as lock_file
from reprokit.supply.lock.model import Lock
from reprokit.supply.locked_input import LockedInput
from reprokit.supply.store import Store
from reprokit.supply.upkeep import inventory

_UNNAMED = "unnamed"


@dataclass
class Names:
    """Inputs by key, and commits, each with the labels (`recipe:variant`, `recipe` for its data) that name it."""

    inputs: dict[str, LockedInput] = field(default_factory=dict)
    commits: set[Commit] = field(default_factory=set)
    labels: dict[str | Commit, list[str]] = field(default_factory=dict)

    def labels_of(self, key: str | Commit) -> list[str]:
        return sorted(set(self.labels.get(key, [])))


def all_locks(store: Store) -> list[Lock]:
    """The locks of every recipe folder, and the others that were used.

    Raises UsageError for a lock that cannot be read.
    """
    places = {path.resolve() for folder in paths.recipe_dirs() for path in folder.glob(f"*{lock_file.SUFFIX}")}
    places |= {path.resolve() for path in store.used_locks()}
    return [lock_file.read(path) for path in sorted(places)]


def names_of(locks: Iterable[Lock]) -> Names:
    """All that these locks name."""
    found = Names()
    for lock in locks:
        for variant in lock.variants:
            _add(found, lock, variant)
        _add_inputs(found, lock.recipe, lock.data_inputs())
    return found


@dataclass(frozen=True)
class Locked:
    """The variants of `NAME[:VARIANT]` that its lock has; `whole` if no variant was named."""

    recipe: Path
    lock: Lock
    variants: tuple[str, ...]
    whole: bool

    @property
    def names(self) -> Names:
        """All that these variants name; the data of benchmarks only if no variant was named."""
        found = Names()
        for variant in self.variants:
            _add(found, self.lock, variant)
        if self.whole:
            _add_inputs(found, self.lock.recipe, self.lock.data_inputs())
        return found


def locked(text: str) -> Locked:
    """`NAME[:VARIANT]` in its lock. Raises UsageError where it has none."""
    chosen = targets(text)
    name, recipe = chosen[0].recipe.name, chosen[0].path
    path = lock_file.lock_path(recipe)
    try:
        lock = lock_file.read(path)
    except FileNotFoundError:
        raise UsageError(f"{name} has no lock", str(path), f"`reprokit lock {name}` writes it") from None
    variants = tuple(target.variant_name for target in chosen if target.variant_name in lock.variants)
    if not variants:
        raise UsageError(f"{text} is not in its lock", str(path), f"`reprokit lock {text}` adds it")
    return Locked(recipe, lock, variants, ":" not in text)


def _add(found: Names, lock: Lock, variant: str) -> None:
    label = f"{lock.recipe}:{variant}"
    _add_inputs(found, label, lock.variants[variant].locked_inputs())
    for git in lock.variants[variant].git:
        commit = Commit(git.url, git.commit)
        found.commits.add(commit)
        found.labels.setdefault(commit, []).append(label)


def _add_inputs(found: Names, label: str, inputs: Iterable[LockedInput]) -> None:
    for each in inputs:
        found.inputs.setdefault(each.key, each)
        found.labels.setdefault(each.key, []).append(label)


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
    """Everything in the store, by kind and name. Raises UsageError where a lock cannot be read."""
    names = names_of(all_locks(store))
    stored = [*inventory.files(store), *inventory.repositories(store)]
    return _sorted(_row(names, each.key, each.size, True) for each in stored)


def of_target(store: Store, text: str) -> list[StoreRow]:
    """Everything that the lock of `NAME[:VARIANT]` names, present or not. Raises UsageError without such a lock."""
    names = locked(text).names
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
