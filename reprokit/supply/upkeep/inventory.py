"""The content of the store: files, repositories, and leftovers of interrupted work."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from reprokit.supply.kinds.git.store import REPOSITORIES
from reprokit.supply.locked_input import Commit
from reprokit.supply.store import Store

_SHA256 = re.compile(r"[0-9a-f]{64}")
_REPOSITORY = re.compile(r"([0-9a-f]{40})\.git")


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
    """Paths that one interrupted download or process left; `since` is the newest time of them."""

    paths: tuple[Path, ...]
    size: int
    since: float


def files(store: Store) -> list[Stored]:
    """Every published file, sorted by its sha256."""
    found = []
    for path in sorted((store.root / "sha256").glob("*/*")):
        if _SHA256.fullmatch(path.name) and path.parent.name == path.name[:2]:
            # The time of the rename into place: a copied file keeps its old modification time.
            status = path.lstat()
            found.append(Stored(path.name, path, status.st_size, status.st_ctime))
    return found


def strays(store: Store) -> list[Path]:
    """Other files among the published ones."""
    known = {file.path for file in files(store)}
    return [path for path in sorted((store.root / "sha256").rglob("*")) if not path.is_dir() and path not in known]


def repositories(store: Store) -> list[Stored]:
    """Every repository, sorted by address and commit."""
    found = []
    for path in sorted((store.root / REPOSITORIES).glob("*/*.git")):
        if _REPOSITORY.fullmatch(path.name):
            commit = Commit(f"https://{unquote(path.parent.name)}", path.stem).in_store
            found.append(Stored(commit, path, size_below(path), path.lstat().st_ctime))
    return found


def old_repositories(store: Store) -> list[Leftover]:
    """Repositories of older versions of reprokit, which are no longer used."""
    old = store.root / "git"
    return [_leftover((old,))] if old.is_dir() else []


def partials(store: Store) -> list[Leftover]:
    """Partial downloads, each with its sidecar file."""
    groups: dict[str, list[Path]] = {}
    for path in sorted(_below(store.root / "partial")):
        groups.setdefault(path.name[:64], []).append(path)
    return [_leftover(tuple(group)) for group in groups.values()]


def scratch(store: Store) -> list[Leftover]:
    """Temporary folders, also of killed processes."""
    return [_leftover((path,)) for path in sorted(_below(store.root / "tmp"))]


def half_written_answers(store: Store) -> list[Leftover]:
    """Incomplete files of `Store.remember`."""
    return [_leftover((path,)) for path in sorted((store.root / "index").glob("*/tmp*"))]


def size_below(path: Path) -> int:
    """Bytes of a file, or of all files in a folder."""
    if not path.is_dir() or path.is_symlink():
        return path.lstat().st_size
    return sum(Path(folder, name).lstat().st_size for folder, _, names in os.walk(path) for name in names)


def _leftover(group: tuple[Path, ...]) -> Leftover:
    return Leftover(group, sum(map(size_below, group)), max(path.lstat().st_ctime for path in group))


def _below(folder: Path) -> Iterator[Path]:
    return folder.iterdir() if folder.is_dir() else iter(())
