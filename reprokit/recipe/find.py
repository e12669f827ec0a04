"""Recipes by name or by the path of their file, and the variant that `NAME[:VARIANT]` names."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from reprokit import paths
from reprokit.errors import UsageError
from reprokit.recipe import yaml
from reprokit.recipe.blocks import OwnBlock
from reprokit.recipe.load import load_file, recipe_text
from reprokit.recipe.model import Recipe, Variant
from reprokit.recipe.requirements import Required, conda_specifications, environments, required_wheels
from reprokit.recipe.spelling import nearest
from reprokit.recipe.uses import Use, own_blocks, project_name, uses_and_requirements
from reprokit.untrusted.files import Folder

_MOST = 4 << 20  # bytes of a file beside a recipe, such as a patch


@dataclass(frozen=True)
class Target:
    """One variant of one recipe, with the files that it names beside the recipe's own file.

    Each file is read and parsed at most once, at its first use, so that all decisions about a variant see the same
    content. Properties that read files raise UsageError with the file and line of a fault.
    """

    recipe: Recipe
    variant_name: str
    path: Path
    _contents: dict[str, bytes] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def variant(self) -> Variant:
        return self.recipe.variants[self.variant_name]

    @property
    def label(self) -> str:
        """`name:variant`."""
        return f"{self.recipe.name}:{self.variant_name}"

    @property
    def workspace(self) -> str:
        """Name of the folder below `workspaces/`."""
        return self.recipe.workspace or self.recipe.name

    @cached_property
    def wheels(self) -> list[Required]:
        """The requirements of `wheels`, with those of its files."""
        return required_wheels(self)

    @cached_property
    def conda(self) -> list[str]:
        """The specifications of `conda`, with those of its files."""
        return conda_specifications(self)

    @cached_property
    def environments(self) -> dict[str, yaml.Document]:
        """conda's environment files by name, for `wheels` and `conda`."""
        return environments(self)

    @cached_property
    def patches(self) -> dict[str, bytes]:
        """The patches of the sources by their paths beside the recipe, sorted."""
        sources = enumerate(self.variant.sources)
        named = {
            path: self.where(("sources", number, "patches")) for number, source in sources for path in source.patches
        }
        return {path: self.read(path, named[path]) for path in sorted(named)}

    @cached_property
    def own_blocks(self) -> dict[str, OwnBlock]:
        """The user's own blocks by name."""
        return own_blocks(self)

    @property
    def uses(self) -> tuple[Use, ...]:
        """The blocks as they are built, `base` first."""
        return self._uses_and_requirements[0]

    @property
    def requirements(self) -> list[str]:
        """The requirements of the blocks and of `wheels` as one set for pip, one requirement per project."""
        return self._uses_and_requirements[1]

    @cached_property
    def _uses_and_requirements(self) -> tuple[tuple[Use, ...], list[str]]:
        return uses_and_requirements(self)

    @cached_property
    def checksums(self) -> dict[str, list[str]]:
        """The SHA-256 checksums that requirements files allow, by project."""
        allowed: dict[str, set[str]] = {}
        for requirement in self.wheels:
            if requirement.sha256:
                allowed.setdefault(project_name(requirement.text), set()).update(requirement.sha256)
        return {name: sorted(checksums) for name, checksums in sorted(allowed.items())}

    @property
    def side_files(self) -> dict[str, bytes]:
        """All the files by path below the recipe's folder, with own blocks of `$REPROKIT_BLOCKS` as if beside it."""
        _ = self.wheels, self.conda, self.patches  # these read files
        contents = {posixpath.normpath(name): content for name, content in sorted(self._contents.items())}
        return contents | {f"blocks/{name}.j2": own.template.encode() for name, own in self.own_blocks.items()}

    def read(self, name: str, where: str) -> bytes:
        """A file below the recipe's folder; `where` names it. Raises UsageError, also for links."""
        folder = self.path.parent
        try:
            if name not in self._contents:
                with Folder(folder) as opened:
                    self._contents[name] = opened.read(name, _MOST)
            return self._contents[name]
        except UsageError as error:
            raise UsageError(f"cannot read {name[:200]!r}: {error.message}", where, error.hint) from None
        except OSError as error:
            hint = f"put it beside the recipe, into {folder}"
            raise UsageError(f"cannot read {name[:200]!r}: {error.strerror}", where, hint) from None

    def text(self, name: str, where: str) -> str:
        """The text of a file, as `read`."""
        return self.read(name, where).decode("utf-8-sig", "replace")

    def where(self, path: yaml.Path) -> str:
        """`FILE:LINE` of `path` below the variant, or below the variant from which it is inherited."""
        try:
            document = self._document
            variants = document.data["variants"]
            name = self.variant_name
            while path and path[0] not in variants[name] and variants[name].get("extends"):
                name = variants[name]["extends"]
        except (UsageError, KeyError, TypeError):  # the file was changed meanwhile
            return str(self.path)
        return f"{self.path}:{document.line(('variants', name, *path))}"

    @cached_property
    def _document(self) -> yaml.Document:
        return yaml.read(recipe_text(self.path), str(self.path))


def recipe_files() -> dict[str, Path]:
    """Every recipe's file by name, sorted; the first folder of `paths.recipe_dirs()` with that name wins.

    A recipe is `NAME.yaml` in such a folder, or `NAME/NAME.yaml` with the files beside it.
    """
    recipes: dict[str, Path] = {}
    for folder in paths.recipe_dirs():
        alone = (inner / f"{inner.name}.yaml" for inner in folder.glob("*/"))
        for file in [*sorted(folder.glob("*.yaml")), *(file for file in alone if file.is_file())]:
            if not file.name.endswith(".lock.yaml"):
                recipes.setdefault(file.stem, file)
    return dict(sorted(recipes.items()))


def recipe_names() -> list[str]:
    return list(recipe_files())


def default_names(every: bool) -> list[str]:
    """The default recipes of a command: those of ./recipes if that folder exists, else (or with `every`) all.

    Raises UsageError if that folder has no recipe.
    """
    files, own = recipe_files(), Path.cwd() / "recipes"
    if every or not own.is_dir():
        return list(files)
    names = [name for name, file in files.items() if file.is_relative_to(own.resolve())]
    if not names:
        hint = "write one with `reprokit new NAME`; --all takes the recipes that come with reprokit"
        raise UsageError("this folder has no recipe", str(own), hint)
    return names


def load_recipe(name: str) -> Recipe:
    """The recipe called `name`, or in the file `name`. Raises UsageError if there is none or it is not valid."""
    return load_file(recipe_file(name))


def split(text: str) -> tuple[str, str]:
    """The recipe and the variant of `NAME[:VARIANT]` or `PATH[:VARIANT]`; the variant is empty if none is named."""
    path = re.fullmatch(r"(.*\.yaml)(?::([^/:]*))?", text, re.DOTALL)
    if path:
        return path[1], path[2] or ""
    name, _, variant = text.partition(":")
    return name, variant


def is_path(name: str) -> bool:
    """Whether a recipe is named by the path of its file."""
    return name.endswith(".yaml")


def plain(text: str) -> str:
    """`NAME[:VARIANT]` for `PATH[:VARIANT]`; other texts as they are."""
    name, variant = split(text)
    return f"{Path(name).stem}{variant and ':'}{variant}" if is_path(name) else text


def is_recipe(text: str) -> bool:
    """Whether `NAME[:VARIANT]` or `PATH[:VARIANT]` names a recipe, and not for example an image."""
    name, _ = split(text)
    return is_path(name) or name in recipe_files()


def recipe_file(name: str) -> Path:
    """The file of the recipe called `name`, or `name` itself if it is a path. Raises UsageError if there is none."""
    if is_path(name):
        file = paths.expanded(name).absolute()
        if name.endswith(".lock.yaml"):
            raise UsageError("this is a lock, not a recipe", name, f"name {name.removesuffix('.lock.yaml')}.yaml")
        if not file.is_file():
            raise UsageError("there is no such recipe file", name, "`reprokit list` shows the recipes")
        return file
    files = recipe_files()
    if name not in files:
        names = ", ".join(files) or "none"
        raise UsageError(
            f"unknown recipe {name!r}{nearest(name, files)}",
            hint=f"recipes are {names}; `reprokit new` writes a new one",
        )
    if "_" in name:
        refuse_twin(name, files[name])
    return files[name]


def refuse_twin(name: str, path: Path) -> None:
    """Raises UsageError if another recipe's name differs only in `_` for `-`: folders in workspaces/ have `_`."""
    twin = next((n for n in recipe_files() if n != name and n.replace("-", "_") == name.replace("-", "_")), None)
    if twin:
        problem = f"the recipes {name!r} and {twin!r} share one workspace folder"
        raise UsageError(problem, str(path), "rename one of them")


def targets(text: str) -> list[Target]:
    """All variants of `NAME`, or the one of `NAME:VARIANT`. Raises UsageError."""
    name, variant = split(text)
    path = recipe_file(name)
    recipe = load_file(path)
    if not variant:
        return [Target(recipe, v, path) for v in recipe.variants]
    if variant not in recipe.variants:
        raise UsageError(
            f"{recipe.name} has no variant {variant!r}{nearest(variant, recipe.variants)}",
            str(path),
            f"variants: {', '.join(recipe.variants)}",
        )
    return [Target(recipe, variant, path)]


def current_targets(names: Sequence[str]) -> list[Target]:
    """The variants of all names; a historic one only if named as `NAME:VARIANT`. Raises UsageError."""
    return [t for name in names for t in targets(name) if not t.variant.historic or split(name)[1]]


def target(text: str) -> Target:
    """The variant of `NAME[:VARIANT]`, by default the recipe's default. Raises UsageError."""
    variants = targets(text)
    return next((t for t in variants if t.variant_name == t.recipe.default_variant), variants[0])
