"""Which changes that an explanation proposes a repair may make. Pure.

The log belongs to a stranger, and a change may hold text of it. So only packages of the distribution and of the user's
own indexes, pins, submodules and the number of jobs can change: no address, no mount, no environment, no command.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from pydantic import TypeAdapter, ValidationError

from reprokit.importing.edits import comment
from reprokit.recipe.fields import AptPackage, Version
from reprokit.recipe.model import Variant
from reprokit.recipe.pin_names import PACKAGES, PIN_NAMES

_PREFIX = "/variants/*/"
_APT: TypeAdapter[str] = TypeAdapter(AptPackage)
_VERSION: TypeAdapter[str] = TypeAdapter(Version)
_MOST_JOBS = 256
_LONGEST = 100
# Pins that a wheel gives. Others name what blocks install, which a repair does not add.
_WHEELS = ("torch", "torchvision", "torchaudio", "numpy", "dgl", "cmake", "flash_attn", "transformers", "tokenizers",
           "xformers", *PACKAGES)  # fmt: skip


@dataclass(frozen=True)
class RecipeChange:
    """One permitted change. With `requirement`, versions have to be found for it first; otherwise it is complete."""

    op: str
    path: str
    value: Any
    requirement: Requirement | None = None

    def __str__(self) -> str:
        name = self.path.removeprefix(_PREFIX).removesuffix("/-")
        return f"{name}: {self.requirement or self.value}"

    def as_json(self) -> dict[str, Any]:
        """As `explain --json` gives it."""
        return {"op": self.op, "path": self.path, "value": self.value}


def permitted(change: Mapping[str, Any], variant: Variant) -> RecipeChange | str:
    """The change, or why a repair does not make it."""
    op, path, value = str(change["op"]), str(change["path"]), change["value"]
    shown = comment(f"{op} {path} {value if value is not None else ''}".strip())
    if value is None:
        return f"{shown}: the choice is yours"
    field = path.removeprefix(_PREFIX).partition("/")[0]
    reader = _READERS.get(field)
    if op == "remove" or not path.startswith(_PREFIX) or reader is None:
        return f"{shown}: a repair changes only {', '.join(_READERS)}"
    if isinstance(value, str) and len(value) > _LONGEST:
        return f"{shown}: too long"
    try:
        return reader(path, value, variant)
    except (ValidationError, ValueError):
        return f"{shown}: not a value that a repair may set"


def _apt(path: str, value: Any, variant: Variant) -> RecipeChange | str:
    name = _APT.validate_python(value, strict=True)
    if "=" in name or path != f"{_PREFIX}apt/-":
        raise ValueError
    if name in variant.apt:
        return f"add {name}: the recipe has it already"
    return RecipeChange("add", path, name)


def _wheel(path: str, value: Any, variant: Variant) -> RecipeChange | str:
    if path != f"{_PREFIX}wheels/-":
        raise ValueError
    try:
        requirement = Requirement(value)
    except (InvalidRequirement, TypeError):
        raise ValueError from None
    if requirement.url or requirement.marker or requirement.extras:
        raise ValueError
    if canonicalize_name(requirement.name) in _own(variant):
        return f"add {requirement}: it is the project itself"
    have = installed(variant).get(canonicalize_name(requirement.name))
    if have is not None and requirement.specifier.contains(have, prereleases=True):
        return f"add {requirement}: the recipe has {have} already"
    return RecipeChange("add", path, str(requirement), requirement)


def _pin(path: str, value: Any, variant: Variant) -> RecipeChange | str:
    name = path.removeprefix(f"{_PREFIX}pins/")
    version = _VERSION.validate_python(value, strict=True)
    if name not in PIN_NAMES:
        raise ValueError
    if name in _WHEELS:
        return _wheel(f"{_PREFIX}wheels/-", f"{name.replace('_', '-')}=={release_of(version)}", variant)
    if name not in variant.pins:
        return f"add {name} {version}: it needs a block, which is yours to add"
    if name in ("python", "distro", "base"):
        return f"{name} {version}: it needs another base, so import the repository again or edit the recipe"
    if variant.pins[name] == version:
        return f"{name} {version}: the recipe has it already"
    return RecipeChange("replace", path, version)


def release_of(version: str) -> str:
    """A version as `==` takes it: a short one stands for its whole series."""
    return version if version.count(".") > 1 or "+" in version else f"{version}.*"


def _submodules(path: str, value: Any, variant: Variant) -> RecipeChange | str:
    if path != f"{_PREFIX}sources/0/submodules" or value is not True:
        raise ValueError
    if not variant.sources:
        return "submodules: the recipe has no source"
    if variant.sources[0].submodules:
        return "submodules: the recipe checks them out already"
    return RecipeChange("add", path, True)


def _jobs(path: str, value: Any, variant: Variant) -> RecipeChange | str:
    if path != f"{_PREFIX}build_args/MAX_JOBS" or not 1 <= int(value) <= _MOST_JOBS:
        raise ValueError
    old = variant.build_args.get("MAX_JOBS")
    # Each round that runs out of memory uses fewer.
    jobs = int(value) if old is None or int(value) < int(old) else int(old) // 2
    return RecipeChange("add", path, str(jobs)) if jobs else "MAX_JOBS: one compiler alone is too much"


_READERS: dict[str, Callable[[str, Any, Variant], RecipeChange | str]] = {
    "apt": _apt,
    "wheels": _wheel,
    "pins": _pin,
    "sources": _submodules,
    "build_args": _jobs,
}


def _own(variant: Variant) -> set[str]:
    """The project that the variant builds, and its modules."""
    options = {block.name: block.options for block in variant.blocks}
    package = options.get("extension_package", {}).get("package", "")
    modules = options.get("imports", {}).get("modules", [])
    return {canonicalize_name(str(name)) for name in (package, *(modules if isinstance(modules, list) else ()))}


def installed(variant: Variant) -> dict[str, str]:
    """The exact versions of a variant's wheels."""
    found: dict[str, str] = {}
    for entry in variant.wheels:
        if isinstance(entry, str) and "==" in entry:
            name, _, version = entry.partition("==")
            found[canonicalize_name(name)] = version
    if "torch" in variant.pins:
        found["torch"] = variant.pins["torch"]
    return found
