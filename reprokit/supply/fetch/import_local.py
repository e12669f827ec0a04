"""Files that the user already has, such as downloads that need a browser."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from reprokit.display import notify
from reprokit.errors import UsageError
from reprokit.supply.fetch.partial import Partial
from reprokit.supply.fetch.pool import check_space
from reprokit.supply.locked_input import LockedInput
from reprokit.supply.store import Store, sha256_of, unwritable

_BLOCK = 1 << 20


def import_files(folder: Path, inputs: Iterable[LockedInput], store: Store) -> int:
    """Copy missing files that `folder` or its subfolders have, by size and sha256; returns how many.

    Copied and never linked: a later change of the user's file would change the store's. Raises UsageError for a missing
    folder, EngineError if the disk is too small.
    """
    if not folder.is_dir():
        raise UsageError("no such folder", str(folder))
    missing: dict[int, dict[str, LockedInput]] = defaultdict(dict)
    for locked in inputs:
        if locked.sha256 and not locked.stored(store):
            missing[locked.size][locked.sha256] = locked
    found: dict[str, tuple[LockedInput, Path]] = {}
    for path, size in _files(folder):
        if missing.get(size):
            sha256 = sha256_of(path)
            if sha256 in missing[size]:
                found[sha256] = (missing[size].pop(sha256), path)
    taken = 0
    with store.in_use():
        check_space([locked for locked, _ in found.values()], store)
        for locked, path in found.values():
            try:
                taken += _import_file(locked, path, store)
            except OSError as error:
                raise unwritable(error, store) from None
            notify(f"{locked.name}: copied from {path}")
    return taken


def _files(folder: Path) -> Iterator[tuple[Path, int]]:
    """Every readable file with its size in bytes, by name."""
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = Path(parent, name)
            if path.is_file() and os.access(path, os.R_OK):
                yield path, path.stat().st_size


def _import_file(locked: LockedInput, path: Path, store: Store) -> bool:
    partial = Partial.claim(store, locked)
    if partial is None:  # another process fetches it
        return False
    with partial, path.open("rb") as file:
        partial.restart()
        while block := file.read(_BLOCK):
            partial.write(block)
        if partial.differs(locked):  # it was changed just now
            partial.discard()
            return False
        partial.publish(store)
    return True
