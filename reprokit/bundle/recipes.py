"""The recipes that a bundle brings along: known here, or put where every command finds them."""

from __future__ import annotations

import hashlib
from pathlib import Path

from reprokit import paths
from reprokit.bundle.model import Metadata
from reprokit.recipe.find import recipe_files
from reprokit.supply.lock.file import lock_path
from reprokit.supply.store import Store
from reprokit.supply.transfer.manifest import Text
from reprokit.supply.transfer.recipes import Recipes


def carried(metadata: Metadata, where: str) -> dict[str, Recipes]:
    """The recipes of a bundle and their locks, by name. Raises UsageError where one is not valid."""
    found: dict[str, Recipes] = {}
    for image in metadata.images:
        if image.recipe and image.recipe_text and image.recipe not in found:
            texts = {_text(image.recipe, False, image.recipe_text): image.recipe_text.encode()}
            if image.lock_text:
                texts[_text(image.recipe, True, image.lock_text)] = image.lock_text.encode()
            found[image.recipe] = Recipes(texts, where)
    return found


def put(recipes: dict[str, Recipes]) -> list[str]:
    """Write down those whose names no recipe here has; lines on what was done, and on those that differ."""
    known, folder, lines = recipe_files(), paths.carried_recipes(), []
    for name, recipe in recipes.items():
        if name not in known:
            recipe.put(folder, Store())
            lines.append(f"the recipe {name} was not known here and is in {folder} now")
        elif differing := [path for path in (known[name], lock_path(known[name])) if _differs(path, recipe)]:
            lines.append(f"{' and '.join(map(str, differing))}: not what the image was built from")
    return lines


def _differs(path: Path, recipe: Recipes) -> bool:
    content = recipe.files.get(path.name)
    return content is not None and (not path.exists() or path.read_bytes() != content)


def _text(name: str, lock: bool, text: str) -> Text:
    raw = text.encode()
    return Text(recipe=name, lock=lock, sha256=hashlib.sha256(raw).hexdigest(), size=len(raw))
