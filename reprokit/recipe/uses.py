"""The blocks of a variant, checked against its other fields, and the pip requirements of both."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from reprokit.errors import UsageError
from reprokit.recipe.blocks import (
    BlockSpec,
    OptionSpec,
    OwnBlock,
    argument,
    block_names,
    block_spec,
    own_block,
    own_block_files,
)
from reprokit.recipe.fields import SECRET_NAME, exact_version
from reprokit.recipe.model import Block
from reprokit.recipe.spelling import nearest

if TYPE_CHECKING:
    from reprokit.recipe.find import Target

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
    """A variant's use of a block: its options with defaults, and the stage of its part `build`.

    `wheel` is the requirement that it needs, "" for none.
    """

    spec: BlockSpec
    options: dict[str, Any]
    stage: str
    wheel: str = ""
    own: OwnBlock | None = None

    @property
    def secrets(self) -> tuple[str, ...]:
        """The names of the secrets that its commands read."""
        options = [name for name, option in self.spec.options.items() if option.type == "secrets"]
        return tuple(dict.fromkeys(name for option in options for name in self.options[option]))

    @property
    def bounds(self) -> list[str]:
        """The bounds that apply to the version of its wheel."""
        if not self.spec.bounds:
            return []
        version = exact_version(Requirement(self.wheel))
        return [b.wheel for b in self.spec.bounds if version and Version(version).release < Version(b.below).release]


def uses_and_requirements(target: Target) -> tuple[tuple[Use, ...], list[str]]:
    """The blocks of a variant in build order, and the requirements of blocks and `wheels` as one set for pip.

    Raises UsageError with file, line and spelling, also if two requirements contradict each other, or a pin is not a
    version of a wheel.
    """
    written: list[Use] = []
    blocks = target.variant.blocks
    implied = [] if blocks and blocks[0].name == "base" else [Block(name="base")]
    # The implied base is not in the file.
    for index, block in enumerate([*implied, *blocks], -len(implied)):
        at = ("blocks", index)
        before = [use.spec.name for use in written]
        own = target.own_blocks.get(block.name)
        spec = own.spec if own else block_spec(block.name)
        _check_place(target, at, spec, before)
        if twin := next((b for b in before if b != spec.name and argument("apt", b) == argument("apt", spec.name)), ""):
            problem = f"the blocks {twin} and {spec.name} differ only in punctuation, and would share build arguments"
            raise UsageError(problem, target.where(at), "rename the file of your block")
        times = before.count(spec.name) + 1
        stage = spec.name if times == 1 else f"{spec.name}-{times}"
        if stage in (use.stage for use in written):
            raise UsageError(f"two blocks have the stage {stage}", target.where(at), "rename the file of your block")
        options = _options(target, (*at, block.name), spec, block.options)
        written.append(Use(spec, options, stage, _wheel(target, spec, options), own))
    requirements = _requirements(target, written)
    _check_installs(target, written, requirements)
    return _by_need(written), requirements


def own_blocks(target: Target) -> dict[str, OwnBlock]:
    """The user's own blocks in a variant, by name. Raises UsageError for a block that is neither own nor bundled."""
    names = {block.name: n for n, block in enumerate(target.variant.blocks) if block.name not in block_names()}
    files = own_block_files([target.path.parent]) if names else {}
    if unknown := next((name for name in names if name not in files), ""):
        raise _unknown(target, ("blocks", names[unknown]), unknown, files)
    return {name: own_block(files[name]) for name in names}


def _unknown(target: Target, at: tuple[str | int, ...], name: str, own: Iterable[str]) -> UsageError:
    for spec in map(block_spec, block_names()):
        if name in spec.instead_of:
            problem = f"there is no block {name}: it downloads from registries of its own, which a lock cannot name"
            return UsageError(problem, target.where(at), spec.instead_of[name])
    names = [*block_names(), *own]
    hint = f"blocks: {', '.join(names)}; own ones are files blocks/NAME.j2 beside the recipe"
    return UsageError(f"unknown block {name!r}{nearest(name, names)}", target.where(at), hint)


def _by_need(written: Sequence[Use]) -> tuple[Use, ...]:
    """Packages before sources and compiled code, so that a changed source does not reinstall packages."""
    ordered: list[Use] = []
    later: list[Use] = []
    for use in written:
        if use.spec.made_of == "sources":
            later.append(use)
        elif use.spec.made_of == "packages":
            ordered.append(use)
        else:
            ordered += [*later, use]
            later = []
    return (*ordered, *later)


def _check_place(target: Target, at: tuple[str | int, ...], spec: BlockSpec, before: list[str]) -> None:
    """Check a block against the blocks before it and the pins. Raises UsageError."""
    name = spec.name
    if (name in before and not spec.repeats) or (name == "base" and before):
        reason = "is written twice" if name in before[1:] else "is always the first block"
        raise UsageError(f"block {name} {reason}", target.where(at), "remove it here")
    if missing := [needed for needed in spec.after if needed not in before]:
        hint = f"write {missing[0]} before {name} in `blocks`"
        raise UsageError(f"block {name} needs block {missing[0]} before it", target.where(at), hint)
    if missing := [pin for pin in spec.pins if pin not in target.variant.pins]:
        hint = f'write `{missing[0]}: "VERSION"` under `pins`'
        raise UsageError(f"block {name} needs the pin {missing[0]}", target.where(("pins",)), hint)


def _options(target: Target, at: tuple[str | int, ...], spec: BlockSpec, given: dict[str, Any]) -> dict[str, Any]:
    if unknown := [name for name in given if name not in spec.options]:
        problem = f"block {spec.name} has no option {unknown[0]!r}{nearest(unknown[0], spec.options)}"
        hint = f"options of {spec.name}: {', '.join(spec.options) or 'none'}"
        raise UsageError(problem, target.where((*at, unknown[0])), hint)
    filled = {}
    for name, option in spec.options.items():
        if option.required and not given.get(name):
            problem = f"block {spec.name} needs its option {name}: {option.does}"
            raise UsageError(problem, target.where(at), f"write `- {spec.name}: {{{name}: ...}}`")
        value = given.get(name, option.default)
        if type(value) is list:
            value = tuple(value)
        problem = _problem(option, value, [s.name for s in target.variant.sources])
        if problem:
            raise UsageError(f"option {name} of block {spec.name} {problem}", target.where((*at, name)))
        filled[name] = value
    return filled


def _problem(option: OptionSpec, value: Any, sources: list[str]) -> str:
    """The fault of an option's value, or ""."""
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
    """Check that each list of the variant has a block that installs it, and vice versa. Raises UsageError."""
    used_names = [use.spec.name for use in used]
    for spec in map(block_spec, block_names()):
        if not spec.installs:
            continue
        entries = requirements if spec.installs == "wheels" else getattr(target.variant, spec.installs)
        if spec.name in used_names and not entries:
            where = target.where(("blocks",))
            raise UsageError(f"block {spec.name} has nothing to install", where, f"remove it, or add `{spec.installs}`")
        if spec.installs == "wheels":
            entries = set(requirements) - {use.wheel for use in used if use.spec.alone}
        if entries and spec.name not in used_names:
            where = target.where((spec.installs,))
            raise UsageError(f"no block installs `{spec.installs}`", where, f"add {spec.name} to `blocks`")
    if target.variant.build_args and not any(use.spec.build_args for use in used):
        hint = "use it with a block that builds, such as run, make or cmake, or write `env` for the image's environment"
        raise UsageError("no block uses `build_args`", target.where(("build_args",)), hint)
    if target.variant.sdists and not any(project_name(text) == "setuptools" for text in requirements):
        raise UsageError(
            "`sdists` need setuptools to be built, and `wheels` does not pin it",
            target.where(("sdists",)),
            "add setuptools==VERSION to `wheels`, and wheel==VERSION if setuptools is older than 70.1",
        )


@lru_cache(maxsize=1024)
def project_name(requirement: str) -> str:
    return canonicalize_name(Requirement(requirement).name)


def _wheel(target: Target, spec: BlockSpec, options: dict[str, Any]) -> str:
    """The wheel that a block with these options needs, "" for none."""
    pins = target.variant.pins
    if any(options[name] != value for name, value in spec.wheel_when.items()):
        return ""
    majors = {name: value.split(".")[0] for name, value in pins.items()}
    return spec.wheel.format(pin=pins, major=majors, option=options)


def _requirements(target: Target, used: Sequence[Use]) -> list[str]:
    """One requirement for each project and marker: the blocks' first, then those of `wheels`."""
    merged: dict[tuple[str, str], str] = {}
    # The order of blocks must not change the list: a changed list makes a lock stale.
    for use in sorted(used, key=lambda use: use.spec.name, reverse=True):
        if use.wheel:
            try:
                merged[project_name(use.wheel), ""] = use.wheel
            except InvalidRequirement:
                raise UsageError(f"{use.wheel} is not a version of a wheel", target.where(("pins",))) from None
    pinned = set(merged)
    for wheel in target.wheels:
        key = (project_name(wheel.text), str(Requirement(wheel.text).marker or ""))
        other = merged.get(key, wheel.text)
        both = wheel.text if other == wheel.text else _both(other, wheel.text)
        if both is None:
            what, hint = f"wheel {wheel.text} contradicts {other}", "change one of the two"
            if key in pinned:
                what = f"wheel {wheel.text} contradicts the pin {other}"
                hint = "remove it: its block installs it"
            raise UsageError(what, wheel.where if isinstance(wheel.where, str) else target.where(wheel.where), hint)
        merged[key] = both
    return list(merged.values())


def _both(one: str, other: str) -> str | None:
    """One requirement that means both; None if an exact one excludes the other. Old pip releases refuse two."""
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
