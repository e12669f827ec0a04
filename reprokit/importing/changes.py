"""Changes to a recipe's file that keep comments and order, and the check of changes that a repair proposes.

A proposed change may contain text of a log, which a stranger can write. So only packages of the distribution and of
the user's own indexes, pins, submodules and the number of jobs can change: no address, no mount, no environment, no
command.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from pydantic import TypeAdapter, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq

from reprokit.errors import UsageError
from reprokit.recipe.fields import AptPackage, Version
from reprokit.recipe.model import Variant
from reprokit.recipe.pin_names import PACKAGES, PIN_NAMES
from reprokit.untrusted.terminal import escaped

_LONGEST_COMMENT = 200


def changed(text: str, variant: str, changes: Iterable[Mapping[str, Any]], why: str = "") -> str:
    """A recipe with changes in the form of `reprokit explain --json`: `op`, `path` (`*` is the variant) and `value`.

    Adding a value that the list has already changes nothing. `why` becomes a comment of each changed value. Raises
    UsageError for a path that the recipe lacks.
    """
    data = _yaml().load(text)
    for change in changes:
        parts = [variant if part == "*" else part for part in str(change["path"]).strip("/").split("/")]
        _apply(data, parts, str(change["op"]), change.get("value"), comment(why) if why else "")
    return text_of(data)


def text_of(data: CommentedMap) -> str:
    """The YAML of a recipe with its comments."""
    out = io.StringIO()
    _yaml().dump(data, out)
    return out.getvalue()


def comment(text: str) -> str:
    """One line for a comment: a stranger's text must not end it."""
    short = escaped(text.replace("\t", " "))
    return short if len(short) <= _LONGEST_COMMENT else f"{short[: _LONGEST_COMMENT - 1]}…"


def _apply(data: Any, parts: list[str], op: str, value: Any, why: str) -> None:
    place = data
    for part, following in pairwise(parts):
        if isinstance(place, dict) and part not in place and op == "add":
            _put(place, part, CommentedSeq() if following == "-" or following.isdigit() else CommentedMap())
        try:
            place = place[int(part)] if isinstance(place, list) else place[part]
        except (LookupError, ValueError, TypeError):
            raise UsageError(f"the recipe has no {'/'.join(parts)}") from None
    last = parts[-1]
    if isinstance(place, list):
        _apply_to_list(place, last, op, value, why)
    elif not isinstance(place, CommentedMap):
        raise UsageError(f"the recipe has no {'/'.join(parts)}")
    elif op == "add" and isinstance(place.get(last), list) and not isinstance(value, list):
        _apply_to_list(place[last], "-", op, value, why)
    elif op == "remove":
        place.pop(last, None)
    else:
        _put(place, last, value)
        if why:
            place.yaml_add_eol_comment(why, last)


def _put(place: Any, key: str, value: Any) -> None:
    """Set a value. A new key goes before the last one, which carries the comments on what follows."""
    if key in place or not place:
        place[key] = value
    else:
        place.insert(len(place) - 1, key, value)


def _apply_to_list(place: Any, last: str, op: str, value: Any, why: str) -> None:
    inside = last.isdigit() and int(last) < len(place)
    if op == "add" and value not in place:
        index = int(last) if last.isdigit() else len(place)
        place.insert(index, value)
    elif op == "replace" and inside:
        index = int(last)
        place[index] = value
    else:
        if op == "remove" and inside:
            del place[int(last)]
        return
    if why:
        place.yaml_add_eol_comment(why, index)


def _yaml() -> YAML:
    yaml = YAML()
    yaml.width = 110
    yaml.indent(mapping=2, sequence=4, offset=2)
    return yaml


_PREFIX = "/variants/*/"
_APT: TypeAdapter[str] = TypeAdapter(AptPackage)
_VERSION: TypeAdapter[str] = TypeAdapter(Version)
_MOST_JOBS = 256
_LONGEST = 100
# Pins of wheels. Blocks install the others, and a repair adds no blocks for them.
_WHEELS = ("torch", "torchvision", "torchaudio", "numpy", "dgl", "cmake", "flash_attn", "transformers", "tokenizers",
           "xformers", *PACKAGES)  # fmt: skip


@dataclass(frozen=True)
class RecipeChange:
    """One permitted change. With `requirement` it is incomplete: its versions must be resolved first."""

    op: str
    path: str
    value: Any
    requirement: Requirement | None = None

    def __str__(self) -> str:
        name = self.path.removeprefix(_PREFIX).removesuffix("/-")
        return f"{name}: {self.requirement or self.value}"

    def as_json(self) -> dict[str, Any]:
        """The form of `explain --json`."""
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
    """A version for `==`: a short one becomes its series, such as `1.2.*`."""
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
    # Each round that runs out of memory halves the jobs.
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
    versions: dict[str, str] = {}
    for entry in variant.wheels:
        if isinstance(entry, str) and "==" in entry:
            name, _, version = entry.partition("==")
            versions[canonicalize_name(name)] = version
    if "torch" in variant.pins:
        versions["torch"] = variant.pins["torch"]
    return versions
