"""The recipes and locks of an archive: compared with those here, or put into a folder."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from reprokit.errors import UsageError
from reprokit.recipe.find import recipe_files
from reprokit.recipe.load import load_text
from reprokit.supply.lock import file as lock_file
from reprokit.supply.lock.model import Lock
from reprokit.supply.store import Store
from reprokit.supply.transfer.manifest import Text


class Recipes:
    """Raises UsageError where one of them is not valid; `where` is the archive."""

    def __init__(self, texts: dict[Text, bytes], where: str) -> None:
        self.files = {Path(entry.path).name: content for entry, content in texts.items()}
        self.locks: dict[str, Lock] = {}
        for entry, content in texts.items():
            place = f"{where}: {entry.path}"
            try:
                text = content.decode("utf-8")
            except UnicodeDecodeError:
                raise UsageError("no text", place) from None
            if entry.lock:
                self.locks[entry.recipe] = lock_file.parse(text, place, entry.recipe)
            else:
                load_text(text, place, entry.recipe)

    def refuse_others_in(self, folder: Path) -> None:
        """Raises UsageError where files of these names but of another content stand in a folder."""
        for name, content in self.files.items():
            if (folder / name).exists() and (folder / name).read_bytes() != content:
                raise UsageError("another file of this name is there", str(folder / name), "move it, or name a folder")

    def put(self, folder: Path, store: Store) -> list[str]:
        """Write them into a folder, locks last: a lock is never there without its recipe."""
        folder.mkdir(parents=True, exist_ok=True)
        for name in sorted(self.files, key=lambda name: (name.endswith(lock_file.SUFFIX), name)):
            _write(folder / name, self.files[name])
        for name in self.locks:
            store.used(folder / f"{name}{lock_file.SUFFIX}")
        return []

    def compare(self, store: Store) -> list[str]:
        """A line on each recipe that is not here as it is in the archive."""
        known = recipe_files()
        lines = []
        for name in self.locks:
            if name not in known:
                lines.append(f"{name} is no recipe here")
                continue
            lock = lock_file.lock_path(known[name])
            for path in (known[name], lock):
                if not path.exists():
                    lines.append(f"{path} is missing")
                elif path.read_bytes() != self.files[path.name]:
                    lines.append(f"{path} differs from the archive's")
            if lock.exists():
                store.used(lock)
        return lines


def _write(path: Path, content: bytes) -> None:
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
        os.fchmod(file.fileno(), 0o644)
    Path(file.name).replace(path)
