"""The content of the store: its entries, the locks that name them, unused entries and damaged ones."""

from __future__ import annotations

import math
import os
import re
import shutil
import time
from collections.abc import Container, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

from reprokit import paths
from reprokit.display import ByteProgress
from reprokit.errors import EngineError, UsageError
from reprokit.recipe.find import split, targets
from reprokit.supply.kinds.git.store import REPOSITORIES, faults, folder_of
from reprokit.supply.lock import file as lock_file
from reprokit.supply.lock.model import Lock
from reprokit.supply.locked_input import Commit, LockedInput
from reprokit.supply.store import Store, sha256_of

_SHA256 = re.compile(r"[0-9a-f]{64}")
_REPOSITORY = re.compile(r"([0-9a-f]{40})\.git")
_UNNAMED = "unnamed"
_DAY_S = 24 * 60 * 60
YOUNG_S = _DAY_S  # a build without a lock may still need it
PARTIAL_S = 7 * _DAY_S


@dataclass(frozen=True)
class Stored:
    """A published file with its sha256 as `key`, or a bare repository with its commit.

    `size` in bytes, `since` the time of its publication in seconds since 1970.
    """

    key: str | Commit
    path: Path
    size: int
    since: float


@dataclass(frozen=True)
class Leftover:
    """A remainder of an interrupted download or process; `since` is the time of its last change."""

    path: Path
    size: int
    since: float


def stored_files(store: Store) -> list[Stored]:
    """Every published file, sorted by its sha256."""
    published = []
    for path in sorted((store.root / "sha256").glob("*/*")):
        if _SHA256.fullmatch(path.name) and path.parent.name == path.name[:2]:
            # The time of the rename into place: a copied file keeps its old modification time.
            status = path.lstat()
            published.append(Stored(path.name, path, status.st_size, status.st_ctime))
    return published


def strays(store: Store) -> list[Path]:
    """Other files among the published ones."""
    published = {file.path for file in stored_files(store)}
    return [path for path in sorted((store.root / "sha256").rglob("*")) if not path.is_dir() and path not in published]


def stored_repositories(store: Store) -> list[Stored]:
    """Every repository, sorted by address and commit."""
    published = []
    for path in sorted((store.root / REPOSITORIES).glob("*/*.git")):
        if _REPOSITORY.fullmatch(path.name):
            commit = Commit(f"https://{unquote(path.parent.name)}", path.stem).in_store
            published.append(Stored(commit, path, size_below(path), path.lstat().st_ctime))
    return published


def partials(store: Store) -> list[Leftover]:
    """Partial downloads."""
    return [_leftover(path) for path in sorted(_entries_below(store.root / "partial"))]


def scratch(store: Store) -> list[Leftover]:
    """Temporary folders, also of killed processes."""
    return [_leftover(path) for path in sorted(_entries_below(store.root / "tmp"))]


def half_written_answers(store: Store) -> list[Leftover]:
    """Incomplete files of `Store.remember`."""
    return [_leftover(path) for path in sorted((store.root / "index").glob("*/tmp*"))]


def size_below(path: Path) -> int:
    """Bytes of a file, or of all files in a folder."""
    if not path.is_dir() or path.is_symlink():
        return path.lstat().st_size
    return sum(Path(folder, name).lstat().st_size for folder, _, names in os.walk(path) for name in names)


def _leftover(path: Path) -> Leftover:
    return Leftover(path, size_below(path), path.lstat().st_ctime)


def _entries_below(folder: Path) -> Iterator[Path]:
    return folder.iterdir() if folder.is_dir() else iter(())


@dataclass
class Names:
    """Inputs by key, and commits, each with the labels (`recipe:variant`, `recipe` for its data) that name it.

    `labels` has commits as the store lists them.
    """

    inputs: dict[str, LockedInput] = field(default_factory=dict)
    commits: set[Commit] = field(default_factory=set)
    labels: dict[str | Commit, list[str]] = field(default_factory=dict)

    def add(self, label: str, inputs: Iterable[LockedInput], commits: Iterable[Commit] = ()) -> None:
        for file in inputs:
            self.inputs.setdefault(file.key, file)
            self.labels.setdefault(file.key, []).append(label)
        for commit in commits:
            self.commits.add(commit)
            self.labels.setdefault(commit.in_store, []).append(label)

    def labels_of(self, key: str | Commit) -> list[str]:
        return sorted(set(self.labels.get(key.in_store if isinstance(key, Commit) else key, [])))


def all_locks(store: Store) -> list[Lock]:
    """The locks of every recipe folder, and the others that were used, with each sha256 that a fetch computed.

    Raises UsageError for a lock that cannot be read.
    """
    # Recipes with files beside them are in folders of their own.
    patterns = (f"*{lock_file.SUFFIX}", f"*/*{lock_file.SUFFIX}")
    locks = [path for folder in paths.recipe_dirs() for pattern in patterns for path in folder.glob(pattern)]
    locks = [path for path in locks if not path.parent.is_symlink()] + store.used_locks()
    distinct = {path.parent.resolve() / path.name for path in locks}
    return [lock_file.read(path).completed(store) for path in sorted(distinct)]


def names_of(locks: Iterable[Lock]) -> Names:
    """All that these locks name."""
    names = Names()
    for lock in locks:
        for name, variant in lock.variants.items():
            names.add(f"{lock.recipe}:{name}", variant.locked_inputs(), (commit.address for commit in variant.git))
        names.add(lock.recipe, lock.data_inputs())
    return names


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
    stored = [*stored_files(store), *stored_repositories(store)]
    return _sorted(_row(names, entry.key, entry.size, True) for entry in stored)


def of_target(store: Store, text: str) -> list[StoreRow]:
    """Everything that the lock of `NAME[:VARIANT]` names, present or not. Raises UsageError without such a lock."""
    names = names_of([locked(text)[1]])
    rows = [_row(names, file.key, file.size, bool(file.stored(store))) for file in names.inputs.values()]
    for commit in names.commits:
        folder = folder_of(commit, store)
        present = folder.is_dir()
        rows.append(_row(names, commit, size_below(folder) if present else 0, present))
    return _sorted(rows)


def totals(rows: Iterable[StoreRow]) -> dict[str, tuple[int, int]]:
    """Number and bytes of present entries, by kind."""
    by_kind: dict[str, tuple[int, int]] = {}
    for row in rows:
        if row.here:
            count, size = by_kind.get(row.kind, (0, 0))
            by_kind[row.kind] = (count + 1, size + row.size)
    return by_kind


def _row(names: Names, key: str | Commit, size: int, present: bool) -> StoreRow:
    labels = tuple(names.labels_of(key))
    if isinstance(key, Commit):
        return StoreRow("git", key.name, size, key.commit, labels, present)
    locked = names.inputs.get(key)
    return StoreRow(locked.kind if locked else _UNNAMED, locked.name if locked else "", size, key, labels, present)


def _sorted(rows: Iterable[StoreRow]) -> list[StoreRow]:
    return sorted(rows, key=lambda row: (row.kind == _UNNAMED, row.kind, row.name, row.key))


@dataclass(frozen=True)
class Plan:
    """The entries that `gc` removes, and those that it keeps because a lock names them or because they are recent."""

    removed: tuple[Stored, ...]
    leftovers: tuple[Leftover, ...]
    named: tuple[Stored, ...]
    young: tuple[Stored, ...]

    @property
    def size(self) -> int:
        """Bytes to free."""
        return sum(entry.size for entry in self.removed) + sum(leftover.size for leftover in self.leftovers)


def plan(store: Store, everything: bool = False, now: float | None = None) -> Plan:
    """What to remove at the time `now` (seconds since 1970), recent files too with `everything`.

    The caller has the store `alone()`. Raises UsageError if a lock cannot be read.
    """
    now = time.time() if now is None else now
    names = names_of(all_locks(store))
    leftovers = [
        *scratch(store),  # no process is using scratch: it would hold the store
        *_before(math.inf if everything else now - PARTIAL_S, partials(store)),
        *_before(now - _DAY_S, half_written_answers(store)),
    ]
    stored = [*stored_files(store), *stored_repositories(store)]
    return decide(stored, leftovers, names.labels, math.inf if everything else now - YOUNG_S)


def decide(
    stored: Iterable[Stored], leftovers: Iterable[Leftover], named: Container[str | Commit], young_since: float
) -> Plan:
    """Keep named entries and those newer than `young_since`."""
    kept: list[Stored] = []
    young: list[Stored] = []
    removed: list[Stored] = []
    for entry in stored:
        (kept if entry.key in named else young if entry.since > young_since else removed).append(entry)
    return Plan(tuple(removed), tuple(leftovers), tuple(kept), tuple(young))


def free(store: Store, plan: Plan) -> None:
    """Remove the entries. After an interruption each file and repository is either complete or gone.

    Raises EngineError if the system refuses.
    """
    trash = store.root / "tmp"
    trash.mkdir(parents=True, exist_ok=True)
    try:
        for leftover in plan.leftovers:
            remove(leftover.path, trash)
        for entry in plan.removed:
            remove(entry.path, trash)
            if isinstance(entry.key, Commit):
                entry.path.with_suffix(".lock").unlink(missing_ok=True)
    except OSError as error:
        hint = "does it belong to another user?"
        raise EngineError(f"cannot free space in the store: {error.strerror}", str(error.filename), hint) from None


def _before(then: float, leftovers: Iterable[Leftover]) -> list[Leftover]:
    return [leftover for leftover in leftovers if leftover.since <= then]


@dataclass(frozen=True)
class Bad:
    """A damaged entry: `what` is its name for users, `why` the reason."""

    what: str
    path: Path
    why: str


@dataclass(frozen=True)
class Verified:
    """The checked entries, and the damaged ones."""

    files: int
    repositories: int
    size: int
    bad: tuple[Bad, ...]


def verify(store: Store, on_progress: ByteProgress = lambda done, total: None) -> Verified:
    """Check everything that is published; `on_progress` gets the bytes done and in total.

    Changes nothing. The caller holds `store.in_use()`.
    """
    files, repositories = stored_files(store), stored_repositories(store)
    total, done = sum(entry.size for entry in (*files, *repositories)), 0
    bad = [Bad(path.name, path, "no file of the store") for path in strays(store)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        checks = {pool.submit(_fault, entry): entry for entry in (*files, *repositories)}
        try:
            for check in as_completed(checks):
                done += checks[check].size
                on_progress(done, total)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    for check, entry in checks.items():
        if why := check.result():
            what = f"{entry.key.name} at {entry.key.commit}" if isinstance(entry.key, Commit) else entry.key
            bad.append(Bad(what, entry.path, why))
    return Verified(len(files), len(repositories), total, tuple(bad))


def _fault(stored: Stored) -> str:
    """The damage to a published file or repository; empty if it is intact."""
    if isinstance(stored.key, Commit):
        return faults(stored.path, stored.key.commit)
    try:
        if stored.path.is_symlink() or not stored.path.is_file():
            return "no plain file"
        sha256 = sha256_of(stored.path)
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return "" if sha256 == stored.key else f"its {stored.size} bytes hash to {sha256}"


def repair(store: Store, bad: tuple[Bad, ...]) -> None:
    """Remove damaged entries, so that the next fetch downloads them. The caller has the store `alone()`."""
    trash = store.root / "tmp"
    trash.mkdir(parents=True, exist_ok=True)
    for entry in bad:
        remove(entry.path, trash)


def remove(path: Path, trash: Path) -> None:
    """Remove a file or folder so that it is complete or gone after an interruption."""
    if not path.is_dir() or path.is_symlink():
        path.unlink(missing_ok=True)
        return
    aside = trash / f"removed-{path.name}"
    if aside.exists():
        shutil.rmtree(aside)
    path.replace(aside)
    shutil.rmtree(aside)
