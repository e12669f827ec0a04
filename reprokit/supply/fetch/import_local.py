"""Files that the user has already, for what a browser can get and a script cannot."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from reprokit.errors import UsageError
from reprokit.supply.fetch.partial import Partial
from reprokit.supply.fetch.pool import check_space, is_here
from reprokit.supply.locked_input import LockedInput
from reprokit.supply.store import Store, sha256_of, unwritable

_BLOCK = 1 << 20


def take_from(
    folder: Path, wants: Iterable[LockedInput], store: Store, say: Callable[[str], None] = lambda line: None
) -> int:
    """Copy what is wanted and found in `folder` or below, by size and sha256 whatever its name; returns how many files.

    Copied and never linked: who later changes their file in place would change the store's. Raises UsageError where
    there is no such folder, EngineError where the store has no room.
    """
    if not folder.is_dir():
        raise UsageError("there is no such folder", str(folder))
    missing: dict[int, dict[str, LockedInput]] = defaultdict(dict)
    for want in wants:
        if not is_here(want, store):
            missing[want.size][want.sha256] = want
    found: dict[str, tuple[LockedInput, Path]] = {}
    for path, size in _files(folder):
        if missing.get(size):
            sha256 = sha256_of(path)
            if sha256 in missing[size]:
                found[sha256] = (missing[size].pop(sha256), path)
    taken = 0
    with store.in_use(say):
        check_space([want for want, _ in found.values()], store)
        for want, path in found.values():
            try:
                taken += _take(want, path, store)
            except OSError as error:
                raise unwritable(error, store) from None
            say(f"{want.name}: taken from {path}")
    return taken


def _files(folder: Path) -> Iterator[tuple[Path, int]]:
    """Every readable file with its size in bytes, in the order of their names."""
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = Path(parent, name)
            if path.is_file() and os.access(path, os.R_OK):
                yield path, path.stat().st_size


def _take(want: LockedInput, path: Path, store: Store) -> bool:
    partial = Partial.claim(store, want.sha256)
    if partial is None:  # another process fetches it
        return False
    with partial, path.open("rb") as file:
        partial.restart()
        while block := file.read(_BLOCK):
            partial.write(block)
        if partial.sha256 != want.sha256:  # it was changed just now
            partial.discard()
            return False
        partial.publish(store)
    return True
