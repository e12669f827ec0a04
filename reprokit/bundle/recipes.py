"""The recipes and locks of a bundle: compared with those here, or written into a folder."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from pydantic import ValidationError

from reprokit import paths
from reprokit.bundle.model import Metadata, RecipeText
from reprokit.errors import UsageError
from reprokit.recipe.find import recipe_files
from reprokit.recipe.load import load_text
from reprokit.supply.lock import file as lock_file
from reprokit.supply.lock.file import lock_path
from reprokit.supply.lock.model import Lock
from reprokit.supply.store import Store


class Recipes:
    """Raises UsageError where a recipe or a lock is not valid; `where` is the bundle."""

    def __init__(self, texts: Iterable[RecipeText], where: str) -> None:
        self.files: dict[str, bytes] = {}
        self.locks: dict[str, Lock] = {}
        for each in texts:
            load_text(each.recipe, f"{where}: {each.name}.yaml", each.name)
            self.files[f"{each.name}.yaml"] = each.recipe.encode()
            if each.lock:
                name = f"{each.name}{lock_file.SUFFIX}"
                self.locks[each.name] = lock_file.parse(each.lock, f"{where}: {name}", each.name)
                self.files[name] = each.lock.encode()

    def refuse_others_in(self, folder: Path) -> None:
        """Raises UsageError where the folder has a file of the same name with other content."""
        for name, content in self.files.items():
            if (folder / name).exists() and (folder / name).read_bytes() != content:
                raise UsageError("another file of this name exists", str(folder / name), "move it, or name a folder")

    def put(self, folder: Path, store: Store) -> None:
        """Write them into a folder, locks last: a lock never exists without its recipe."""
        folder.mkdir(parents=True, exist_ok=True)
        for name in sorted(self.files, key=lambda name: (name.endswith(lock_file.SUFFIX), name)):
            _write(folder / name, self.files[name])
        for name in self.locks:
            store.used(folder / f"{name}{lock_file.SUFFIX}")

    def compare(self, store: Store) -> list[str]:
        """A line on each recipe that is not here as it is in the bundle."""
        known = recipe_files()
        lines = []
        for name in self.locks:
            if name not in known:
                lines.append(f"{name} is no recipe here")
                continue
            lock = lock_path(known[name])
            for path in (known[name], lock):
                if not path.exists():
                    lines.append(f"{path} is missing")
                elif self.differs(path):
                    lines.append(f"{path} differs from the bundle's")
            if lock.exists():
                store.used(lock)
        return lines

    def differs(self, path: Path) -> bool:
        """Whether the bundle has a file of this name with other content."""
        content = self.files.get(path.name)
        return content is not None and (not path.exists() or path.read_bytes() != content)


def of_images(metadata: Metadata, where: str) -> dict[str, Recipes]:
    """The recipes of a bundle's images, by name. Raises UsageError where one is not valid."""
    found: dict[str, Recipes] = {}
    for image in metadata.images:
        if image.recipe and image.recipe_text and image.recipe not in found:
            try:
                text = RecipeText(name=image.recipe, recipe=image.recipe_text, lock=image.lock_text)
            except ValidationError:
                raise UsageError(f"{image.recipe!r} is not a name of a recipe", where) from None
            found[image.recipe] = Recipes([text], where)
    return found


def put_unknown(recipes: dict[str, Recipes]) -> list[str]:
    """Write down the recipes that no folder here has; lines on what was done, and on recipes that differ."""
    known, folder, lines = recipe_files(), paths.carried_recipes(), []
    for name, recipe in recipes.items():
        if name not in known:
            recipe.put(folder, Store())
            lines.append(f"the recipe {name} was not known here and is in {folder} now")
        elif differing := [path for path in (known[name], lock_path(known[name])) if recipe.differs(path)]:
            lines.append(f"{' and '.join(map(str, differing))}: not what the image was built from")
    return lines


def _write(path: Path, content: bytes) -> None:
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
        os.fchmod(file.fileno(), 0o644)
    Path(file.name).replace(path)
