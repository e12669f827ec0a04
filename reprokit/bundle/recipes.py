"""Recipes and locks in a bundle, with the files beside them: collect, compare with the local ones, write."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from reprokit import paths
from reprokit.bundle.model import BesideFile, Metadata, RecipeText
from reprokit.display import notify
from reprokit.errors import UsageError
from reprokit.formatting import size as in_words
from reprokit.image.labels import ImageLabels
from reprokit.recipe.blocks import own_block_files
from reprokit.recipe.find import Target, recipe_files, targets
from reprokit.recipe.load import load_file, load_text
from reprokit.supply.lock import file as lock_file
from reprokit.supply.lock.file import lock_path
from reprokit.supply.lock.model import Lock
from reprokit.supply.store import Store
from reprokit.untrusted import files

_BESIDE = TypeAdapter(BesideFile)
# Bytes of all files beside the recipes of a bundle: they are part of its metadata, which is one document.
MOST_BESIDE = 6 << 20


def collected(recipe: Path, required: Collection[str] = ()) -> list[BesideFile]:
    """The files that the variants of a recipe name.

    Raises UsageError if a file of the variants `required` cannot be read or carried; other variants may lack theirs.
    """
    loaded = load_file(recipe)
    by_path: dict[str, BesideFile] = {}
    for name in loaded.variants:
        try:
            contents = Target(loaded, name, recipe).side_files
            by_path |= {path: _beside(loaded.name, path, content) for path, content in contents.items()}
        except UsageError:
            if name in required:
                raise
    return list(by_path.values())


def beside(labels: Iterable[Mapping[str, str]], inputs: Iterable[str]) -> tuple[BesideFile, ...]:
    """The files beside the recipes of images with these labels, and of `inputs` (`NAME[:VARIANT]`).

    Missing files of an image are reported. Raises UsageError as `collected`, or if they are too large.
    """
    recipes = recipe_files()
    required: dict[Path, set[str]] = {}
    for target in [target for text in inputs for target in targets(text)]:
        required.setdefault(target.path, set()).add(target.variant_name)
    by_recipe = {recipe: collected(recipe, variants) for recipe, variants in required.items()}
    for image in map(ImageLabels.read, labels):
        name, variant = image.recipe, image.variant
        if name in recipes:
            try:
                by_recipe.setdefault(recipes[name], collected(recipes[name]))
                collected(recipes[name], [variant])
            except UsageError as error:
                notify(f"the bundle has the image of {name}:{variant}, but not all files beside it: {error.message}")
    chosen = [file for recipe in sorted(by_recipe) for file in by_recipe[recipe]]
    if (total := sum(len(file.content) for file in chosen)) > MOST_BESIDE:
        problem = (
            f"the files beside the recipes have {in_words(total)}: a bundle carries {in_words(MOST_BESIDE)} of them"
        )
        raise UsageError(problem, hint="name large files in `files` of the recipe, so that the lock has them")
    return tuple(chosen)


def _beside(recipe: str, path: str, content: bytes) -> BesideFile:
    try:
        made = _BESIDE.validate_python({"recipe": recipe, "path": path, "content": b""})
    except ValidationError:
        hint = "rename it: letters, digits and . _ + - in each part, not beginning with a dot"
        raise UsageError(f"a bundle cannot carry the file {path[:200]!r} of {recipe}", hint=hint) from None
    return made.model_copy(update={"content": content})


def home(folder: Path, name: str, beside: bool) -> Path:
    """The folder for a bundle's recipe below a folder of recipes: its own if it has files beside it."""
    return folder / name if beside and not (folder / f"{name}.yaml").exists() else folder


class Recipes:
    """The recipes of a bundle; `files` are contents by recipe, then by path below the recipe's folder.

    Raises UsageError if a recipe or a lock is not valid, or if a recipe does not name a file beside it.
    `where` is the bundle.
    """

    def __init__(self, texts: Iterable[RecipeText], beside: Sequence[BesideFile], where: str) -> None:
        self.files: dict[str, dict[str, bytes]] = {}
        self.locks: dict[str, Lock] = {}
        for text in texts:
            load_text(text.recipe, f"{where}: {text.name}.yaml", text.name)
            # The order matters: no lock exists without its recipe, and no recipe without its files.
            contents = self.files[text.name] = _named([f for f in beside if f.recipe == text.name], text, where)
            contents[f"{text.name}.yaml"] = text.recipe.encode()
            if text.lock:
                name = f"{text.name}{lock_file.SUFFIX}"
                self.locks[text.name] = lock_file.parse(text.lock, f"{where}: {name}", text.name)
                contents[name] = text.lock.encode()

    def refuse_others_in(self, folder: Path) -> None:
        """Raises UsageError if the folder has a file of the same name with other content."""
        for name, contents in self.files.items():
            home = self.home(folder, name)
            for path, content in contents.items():
                if os.path.lexists(home / path) and _differs(home / path, content):
                    raise UsageError("another file of this name exists", str(home / path), "move it, or name a folder")
                if home == folder and self._has_beside(name) and not os.path.lexists(home / path):
                    problem = f"the folder has the recipe {name} without this file of it"
                    raise UsageError(problem, str(home / path), "move the recipe, or name another folder")

    def put(self, folder: Path, store: Store) -> None:
        """Write the recipes into a folder. Raises UsageError for a link in the way, OSError."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, contents in self.files.items():
            home = self.home(folder, name)
            with files.Folder(folder) as opened:
                for path, content in contents.items():
                    with opened.replacing(str((home / path).relative_to(folder))) as file:
                        file.write(content)
            if name in self.locks:
                store.used(home / f"{name}{lock_file.SUFFIX}")

    def compare(self, store: Store) -> list[str]:
        """A line on each recipe that is missing locally or differs from the bundle's."""
        local = recipe_files()
        lines = [f"{name} is not a recipe here" for name in self.locks if name not in local]
        for name in [name for name in self.locks if name in local]:
            for path in self.differing(name, local[name]):
                lines.append(f"{path} differs from the bundle's" if path.exists() else f"{path} is missing")
            if lock_path(local[name]).exists():
                store.used(lock_path(local[name]))
        return lines

    def differing(self, name: str, recipe: Path) -> list[Path]:
        """The files of a local recipe that differ from the bundle's or are missing."""
        blocks = own_block_files([recipe.parent])
        local_paths = {path: recipe.parent / path for path in self.files[name]}
        # A block may be in a folder of `$REPROKIT_BLOCKS` instead.
        local_paths |= {
            f"blocks/{block}.j2": path for block, path in blocks.items() if f"blocks/{block}.j2" in local_paths
        }
        return [local for path, local in local_paths.items() if _differs(local, self.files[name][path])]

    def _has_beside(self, name: str) -> bool:
        return len(self.files[name]) > 1 + (name in self.locks)

    def home(self, folder: Path, name: str) -> Path:
        """The folder of the recipe below a folder of recipes."""
        return home(folder, name, self._has_beside(name))


def _named(beside: Sequence[BesideFile], text: RecipeText, where: str) -> dict[str, bytes]:
    """The contents of files beside a recipe by path. Raises UsageError for files that the recipe does not name."""
    contents = {file.path: file.content for file in beside}
    if not contents:
        return {}
    recipe, lock = f"{text.name}.yaml", f"{text.name}{lock_file.SUFFIX}"
    with tempfile.TemporaryDirectory(prefix="reprokit-") as scratch:
        try:
            with files.Folder(Path(scratch)) as folder:
                for path, content in [*contents.items(), (recipe, text.recipe.encode())]:
                    with folder.replacing(path) as file:
                        file.write(content)
        except OSError as error:
            raise UsageError(f"the files beside {text.name} cannot be written: {error.strerror}", where) from None
        named = {file.path for file in collected(Path(scratch) / recipe)} - {recipe, lock}
    if strange := contents.keys() - named:
        raise UsageError(f"the recipe {text.name} names no file {min(strange)}", where, "export it again")
    return contents


def _differs(path: Path, content: bytes) -> bool:
    try:
        return files.read(path, len(content)) != content
    except (OSError, UsageError):
        return True


def of_images(metadata: Metadata, where: str) -> dict[str, Recipes]:
    """The recipes of a bundle's images, by name. Raises UsageError if one is not valid."""
    by_name: dict[str, Recipes] = {}
    for image in metadata.images:
        if image.recipe and image.recipe_text and image.recipe not in by_name:
            try:
                text = RecipeText(name=image.recipe, recipe=image.recipe_text, lock=image.lock_text)
            except ValidationError:
                raise UsageError(f"{image.recipe!r} is not a name of a recipe", where) from None
            by_name[image.recipe] = Recipes([text], metadata.beside, where)
    return by_name


def put_unknown(recipes: dict[str, Recipes]) -> list[str]:
    """Write the recipes that no local folder has; return lines on these, and on recipes that differ."""
    local, folder, lines = recipe_files(), paths.carried_recipes(), []
    for name, recipe in recipes.items():
        if name not in local:
            try:
                recipe.refuse_others_in(folder)
                recipe.put(folder, Store())
            except UsageError as error:
                lines.append(f"the recipe {name} was not written: {error.message} ({error.where})")
                continue
            lines.append(f"the recipe {name} was not known here and is in {recipe.home(folder, name)} now")
        elif differing := recipe.differing(name, local[name]):
            lines.append(f"{' and '.join(map(str, differing))}: not what the image was built from")
    return lines
