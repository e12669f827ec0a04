"""The blocks of a variant, checked against the rest of the recipe before anything is rendered."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from reprokit.errors import UsageError
from reprokit.recipe import blocks as known
from reprokit.recipe.blocks import BlockSpec, OptionSpec, OwnBlock, block_names, block_spec
from reprokit.recipe.fields import SECRET_NAME, exact_version
from reprokit.recipe.find import Target, where_in
from reprokit.recipe.model import Block
from reprokit.recipe.requirements import required
from reprokit.recipe.spelling import nearest
from reprokit.supply.kinds.kind import argument

_TYPES: dict[str, type] = {
    "boolean": bool,
    "string": str,
    "list": tuple,
    "source": str,
    "sources": tuple,
    "secrets": tuple,
}


@dataclass(frozen=True)
class Use:
    """A variant's use of a block: its options, with defaults filled in, and the stage of its part `build`."""

    spec: BlockSpec
    options: dict[str, Any]
    stage: str
    own: OwnBlock | None = None

    @property
    def secrets(self) -> tuple[str, ...]:
        """The names of the secrets that its commands read."""
        options = [name for name, option in self.spec.options.items() if option.type == "secrets"]
        return tuple(dict.fromkeys(name for option in options for name in self.options[option]))


def uses(target: Target) -> tuple[Use, ...]:
    """The blocks of a variant as they are built, `base` first. Raises UsageError with file, line and spelling."""
    found: list[Use] = []
    blocks = target.variant.blocks
    implied = [] if blocks and blocks[0].name == "base" else [Block(name="base")]
    # The implied base is not in the file.
    for index, block in enumerate([*implied, *blocks], -len(implied)):
        at = ("blocks", index)
        before = [use.spec.name for use in found]
        own = _own(target, at, block.name)
        this = own.spec if own else block_spec(block.name)
        _check_place(target, at, this, before)
        if twin := next((b for b in before if b != this.name and argument("apt", b) == argument("apt", this.name)), ""):
            problem = f"the blocks {twin} and {this.name} differ only in punctuation, and would share build arguments"
            raise UsageError(problem, where_in(target, at), "rename the file of your block")
        times = before.count(this.name) + 1
        stage = this.name if times == 1 else f"{this.name}-{times}"
        if stage in (use.stage for use in found):
            raise UsageError(
                f"two blocks have the stage {stage}", where_in(target, at), "rename the file of your block"
            )
        found.append(Use(this, _options(target, (*at, block.name), this, block.options), stage, own))
    _check_installs(target, found, requirements_of(target, found))
    return _by_need(found)


def _by_need(found: Sequence[Use]) -> tuple[Use, ...]:
    """Packages before sources and what is compiled from them, so that a changed source installs none again."""
    ordered: list[Use] = []
    later: list[Use] = []
    for use in found:
        if use.spec.made_of == "sources":
            later.append(use)
        elif use.spec.made_of == "packages":
            ordered.append(use)
        else:
            ordered += [*later, use]
            later = []
    return (*ordered, *later)


def _own(target: Target, at: tuple[str | int, ...], name: str) -> OwnBlock | None:
    """The user's own block of this name, None for a bundled one. Raises UsageError if there is neither."""
    if name in block_names():
        return None
    own = known.own_block_files([target.path.parent])
    if name in own:
        return known.own_block(own[name])
    for spec in map(block_spec, block_names()):
        if name in spec.instead_of:
            problem = f"there is no block {name}: it downloads from registries of its own, which a lock cannot name"
            raise UsageError(problem, where_in(target, at), spec.instead_of[name])
    names = [*block_names(), *own]
    raise UsageError(
        f"unknown block {name!r}{nearest(name, names)}",
        where_in(target, at),
        f"blocks: {', '.join(names)}; own ones are files blocks/NAME.j2 beside the recipe",
    )


def _check_place(target: Target, at: tuple[str | int, ...], spec: BlockSpec, before: list[str]) -> None:
    """Check a block against the blocks before it and the pins. Raises UsageError."""
    name = spec.name
    if (name in before and not spec.repeats) or (name == "base" and before):
        reason = "is written twice" if name in before[1:] else "is always the first block"
        raise UsageError(f"block {name} {reason}", where_in(target, at), "remove it here")
    if missing := [needed for needed in spec.after if needed not in before]:
        hint = f"write {missing[0]} before {name} in `blocks`"
        raise UsageError(f"block {name} needs block {missing[0]} before it", where_in(target, at), hint)
    if missing := [pin for pin in spec.pins if pin not in target.variant.pins]:
        hint = f'write `{missing[0]}: "VERSION"` under `pins`'
        raise UsageError(f"block {name} needs the pin {missing[0]}", where_in(target, ("pins",)), hint)


def _options(target: Target, at: tuple[str | int, ...], this: BlockSpec, given: dict[str, Any]) -> dict[str, Any]:
    if unknown := [name for name in given if name not in this.options]:
        problem = f"block {this.name} has no option {unknown[0]!r}{nearest(unknown[0], this.options)}"
        hint = f"options of {this.name}: {', '.join(this.options) or 'none'}"
        raise UsageError(problem, where_in(target, (*at, unknown[0])), hint)
    filled = {}
    for name, option in this.options.items():
        if option.required and not given.get(name):
            problem = f"block {this.name} needs its option {name}: {option.does}"
            raise UsageError(problem, where_in(target, at), f"write `- {this.name}: {{{name}: ...}}`")
        value = given.get(name, option.default)
        if type(value) is list:
            value = tuple(value)
        problem = _problem(option, value, [s.name for s in target.variant.sources])
        if problem:
            raise UsageError(f"option {name} of block {this.name} {problem}", where_in(target, (*at, name)))
        filled[name] = value
    return filled


def _problem(option: OptionSpec, value: Any, sources: list[str]) -> str:
    """What is wrong with an option's value, or ""."""
    if type(value) is not _TYPES[option.type]:
        return f"must be a {option.type}, not {value!r}"
    if option.type == "source" and not value and not option.required:
        return ""
    for choice in (value if isinstance(value, tuple) else [value]) if option.choices else ():
        if choice not in option.choices:
            return f"cannot be {choice!r}{nearest(str(choice), option.choices)} (choices: {', '.join(option.choices)})"
    if option.type == "secrets":
        for name in value if isinstance(value, tuple) else ():
            if not re.fullmatch(SECRET_NAME, name):
                return f"names {name!r}, which is not the name of a secret; write one such as API_TOKEN"
    if option.type.startswith("source"):
        for name in value if isinstance(value, tuple) else [value]:
            if name not in sources:
                return f"names {name!r}, which is not an entry of `sources`{nearest(str(name), sources)}"
    return ""


def _check_installs(target: Target, used: Sequence[Use], requirements: Sequence[str]) -> None:
    """Each list of the variant needs the block that installs it, and such a block needs something to install."""
    used_names = [use.spec.name for use in used]
    for spec in map(block_spec, block_names()):
        if not spec.installs:
            continue
        entries = requirements if spec.installs == "wheels" else getattr(target.variant, spec.installs)
        if spec.name in used_names and not entries:
            where = where_in(target, ("blocks",))
            raise UsageError(f"block {spec.name} has nothing to install", where, f"remove it, or add `{spec.installs}`")
        if spec.installs == "wheels":
            entries = set(requirements) - {_wheel(target, use) for use in used if use.spec.alone}
        if entries and spec.name not in used_names:
            where = where_in(target, (spec.installs,))
            raise UsageError(f"no block installs `{spec.installs}`", where, f"add {spec.name} to `blocks`")
    if target.variant.build_args and not any(use.spec.build_args for use in used):
        hint = "use it with a block that builds, such as run, make or cmake, or write `env` for the image's environment"
        raise UsageError("no block uses `build_args`", where_in(target, ("build_args",)), hint)
    if target.variant.sdists and not any(_project(text) == "setuptools" for text in requirements):
        raise UsageError(
            "`sdists` need setuptools to be built, and `wheels` does not pin it",
            where_in(target, ("sdists",)),
            "add setuptools==VERSION to `wheels`, and wheel==VERSION if setuptools is older than 70.1",
        )


@lru_cache(maxsize=1024)
def _project(requirement: str) -> str:
    return canonicalize_name(Requirement(requirement).name)


def wheel_requirements(target: Target) -> list[str]:
    """Every requirement of a variant, one for each project, as one set for pip: its blocks' first, then its `wheels`.

    Raises UsageError if two contradict each other, or a pin is not a version of a wheel.
    """
    return requirements_of(target, uses(target))


def wheel_checksums(target: Target) -> dict[str, list[str]]:
    """The sha256 that requirements files allow for the files of a project."""
    allowed: dict[str, set[str]] = {}
    for each in required(target):
        if each.sha256:
            allowed.setdefault(_project(each.text), set()).update(each.sha256)
    return {name: sorted(found) for name, found in sorted(allowed.items())}


def alone(target: Target) -> dict[str, str]:
    """The exact requirements that a block installs by itself, by block."""
    return {use.spec.name: _wheel(target, use) for use in uses(target) if use.spec.alone}


def bounds(target: Target) -> dict[str, list[str]]:
    """What limits the dependencies of the wheel that a block installs by itself, by block."""
    return {use.spec.name: bounds_of(target, use) for use in uses(target) if use.spec.alone}


def bounds_of(target: Target, use: Use) -> list[str]:
    """The bounds of a block's wheel that hold for its version."""
    if not use.spec.bounds:
        return []
    version = exact_version(Requirement(_wheel(target, use)))
    return [b.wheel for b in use.spec.bounds if version and Version(version).release < Version(b.below).release]


def _wheel(target: Target, use: Use) -> str:
    """The wheel that a block needs, "" for none."""
    pins = target.variant.pins
    if any(use.options[name] != value for name, value in use.spec.wheel_when.items()):
        return ""
    majors = {name: value.split(".")[0] for name, value in pins.items()}
    return use.spec.wheel.format(pin=pins, major=majors, option=use.options)


def requirements_of(target: Target, used: Sequence[Use]) -> list[str]:
    """`wheel_requirements` of a variant with these blocks."""
    found: dict[tuple[str, str], str] = {}
    # Another order of blocks must not change the list: it decides whether a lock is stale.
    for use in sorted(used, key=lambda use: use.spec.name, reverse=True):
        if text := _wheel(target, use):
            try:
                found[_project(text), ""] = text
            except InvalidRequirement:
                raise UsageError(f"{text} is not a version of a wheel", where_in(target, ("pins",))) from None
    pinned = set(found)
    for each in required(target):
        key = (_project(each.text), str(Requirement(each.text).marker or ""))
        other = found.get(key, each.text)
        both = each.text if other == each.text else _both(other, each.text)
        if both is None:
            what, hint = f"wheel {each.text} contradicts {other}", "change one of the two"
            if key in pinned:
                what = f"wheel {each.text} contradicts the pin {other}"
                hint = "remove it: its block installs it"
            raise UsageError(what, each.where(), hint)
        found[key] = both
    return list(found.values())


def _both(one: str, other: str) -> str | None:
    """One requirement that means both, None if an exact one excludes the other. Old versions of pip refuse two."""
    first, second = Requirement(one), Requirement(other)
    if first.url or second.url:
        return None
    exact = exact_version(first) or exact_version(second)
    specifier = first.specifier & second.specifier
    if exact and not specifier.contains(exact, prereleases=True):
        return None
    both = Requirement(str(first))
    both.extras = first.extras | second.extras
    both.specifier = SpecifierSet(f"=={exact}") if exact else specifier
    return str(both)
