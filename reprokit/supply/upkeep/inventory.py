"""What is in the store: files by content, repositories by commit, and what was begun and not ended."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from reprokit.supply.kinds.git.store import REPOSITORIES, Commit
from reprokit.supply.store import Store

_SHA256 = re.compile(r"[0-9a-f]{64}")
_REPOSITORY = re.compile(r"([0-9a-f]{40})\.git")


@dataclass(frozen=True)
class Stored:
    """A published file, `key` its sha256, or a bare repository, `key` the commit that it is there for.

    `size` in bytes, `since` the time of its publication in seconds since 1970.
    """

    key: str | Commit
    path: Path
    size: int
    since: float


@dataclass(frozen=True)
class Leftover:
    """What a download or a process left behind: its paths belong together, `since` is the newest time of them."""

    paths: tuple[Path, ...]
    size: int
    since: float


def files(store: Store) -> list[Stored]:
    """Every published file, sorted by its sha256."""
    found = []
    for path in sorted((store.root / "sha256").glob("*/*")):
        if _SHA256.fullmatch(path.name) and path.parent.name == path.name[:2]:
            # The time of the rename into place: a file that the user already had keeps its old time of change.
            status = path.lstat()
            found.append(Stored(path.name, path, status.st_size, status.st_ctime))
    return found


def strays(store: Store) -> list[Path]:
    """What lies among the published files and is none."""
    known = {file.path for file in files(store)}
    return [path for path in sorted((store.root / "sha256").rglob("*")) if not path.is_dir() and path not in known]


def repositories(store: Store) -> list[Stored]:
    """Every repository, sorted by address and commit."""
    found = []
    for path in sorted((store.root / REPOSITORIES).glob("*/*.git")):
        if _REPOSITORY.fullmatch(path.name):
            commit = Commit(f"https://{unquote(path.parent.name)}", path.stem)
            found.append(Stored(commit, path, size_below(path), path.lstat().st_ctime))
    return found


def old_repositories(store: Store) -> list[Leftover]:
    """Repositories as reprokit kept them before, one below another where addresses said so; nothing reads them."""
    old = store.root / "git"
    return [_leftover((old,))] if old.is_dir() else []


def partials(store: Store) -> list[Leftover]:
    """Downloads that were begun, each with all that is kept beside it."""
    groups: dict[str, list[Path]] = {}
    for path in sorted(_below(store.root / "partial")):
        groups.setdefault(path.name[:64], []).append(path)
    return [_leftover(tuple(group)) for group in groups.values()]


def scratch(store: Store) -> list[Leftover]:
    """Folders that processes work in; those of dead ones stay."""
    return [_leftover((path,)) for path in sorted(_below(store.root / "tmp"))]


def half_written_answers(store: Store) -> list[Leftover]:
    """Answers that a process began to remember."""
    return [_leftover((path,)) for path in sorted((store.root / "index").glob("*/tmp*"))]


def size_below(path: Path) -> int:
    """Bytes of a file, or of all files below a folder."""
    if not path.is_dir() or path.is_symlink():
        return path.lstat().st_size
    return sum(Path(folder, name).lstat().st_size for folder, _, names in os.walk(path) for name in names)


def _leftover(group: tuple[Path, ...]) -> Leftover:
    return Leftover(group, sum(map(size_below, group)), max(path.lstat().st_ctime for path in group))


def _below(folder: Path) -> Iterator[Path]:
    return folder.iterdir() if folder.is_dir() else iter(())
