"""The blocks of a variant, checked against the rest of the recipe before anything is rendered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from reprokit.errors import UsageError
from reprokit.recipe.blocks import BlockSpec, OptionSpec, block_names, block_spec
from reprokit.recipe.find import Target, where_in
from reprokit.recipe.model import Block
from reprokit.recipe.spelling import nearest

_TYPES: dict[str, type] = {"boolean": bool, "string": str, "list": tuple, "source": str, "sources": tuple}


@dataclass(frozen=True)
class Use:
    """A variant's use of a block: its options, with defaults filled in."""

    spec: BlockSpec
    options: dict[str, Any]


def uses(target: Target) -> tuple[Use, ...]:
    """The blocks of a variant in order, `base` first. Raises UsageError with file, line and spelling."""
    found: list[Use] = []
    for index, block in enumerate(_with_base(target.variant.blocks)):
        # The implied base is not in the file, where the others are one place earlier.
        at = ("blocks", index - len(_with_base(target.variant.blocks)) + len(target.variant.blocks))
        this = _placed(target, at, block.name, [use.spec.name for use in found])
        found.append(Use(this, _options(target, (*at, block.name), this, block.options)))
    _check_installs(target, found, _requirements(target, found))
    return tuple(found)


def _with_base(blocks: list[Block]) -> list[Block]:
    return blocks if blocks and blocks[0].name == "base" else [Block(name="base"), *blocks]


def _placed(target: Target, at: tuple, name: str, before: list[str]) -> BlockSpec:
    """The spec of a block, checked against the blocks before it and the pins."""
    known = block_names()
    if name not in known:
        hint = f"blocks: {', '.join(known)}"
        raise UsageError(f"unknown block {name!r}{nearest(name, known)}", where_in(target, at), hint)
    if name in before or (name == "base" and before):
        reason = "is written twice" if name in before[1:] else "is always the first block"
        raise UsageError(f"block {name} {reason}", where_in(target, at), "remove it here")
    for needed in block_spec(name).after:
        if needed not in before:
            raise UsageError(
                f"block {name} needs block {needed} before it",
                where_in(target, at),
                f"write {needed} before {name} in `blocks`",
            )
    for pin in block_spec(name).pins:
        if pin not in target.variant.pins:
            raise UsageError(
                f"block {name} needs the pin {pin}",
                where_in(target, ("pins",)),
                f'write `{pin}: "VERSION"` under `pins`',
            )
    return block_spec(name)


def _options(target: Target, at: tuple, this: BlockSpec, given: dict[str, Any]) -> dict[str, Any]:
    for name in given:
        if name not in this.options:
            raise UsageError(
                f"block {this.name} has no option {name!r}{nearest(name, this.options)}",
                where_in(target, (*at, name)),
                f"options of {this.name}: {', '.join(this.options) or 'none'}",
            )
    filled = {}
    for name, option in this.options.items():
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
    if option.choices and value not in option.choices:
        return f"cannot be {value!r}{nearest(str(value), option.choices)} (choices: {', '.join(option.choices)})"
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
        if entries and spec.name not in used_names:
            where = where_in(target, (spec.installs,))
            raise UsageError(f"no block installs `{spec.installs}`", where, f"add {spec.name} to `blocks`")
    if target.variant.sdists and not any(_project(text) == "setuptools" for text in target.variant.wheels):
        raise UsageError(
            "`sdists` need setuptools to be built, and `wheels` does not pin it",
            where_in(target, ("sdists",)),
            "add setuptools==VERSION to `wheels`, and wheel==VERSION if setuptools is older than 70.1",
        )


def _project(requirement: str) -> str:
    return canonicalize_name(Requirement(requirement).name)


def wheel_requirements(target: Target) -> list[str]:
    """Every exact requirement of a variant, as one set for pip: its blocks' first, then its own `wheels`.

    Raises UsageError if the two contradict each other, or a pin is not a version of a wheel.
    """
    return _requirements(target, uses(target))


def _requirements(target: Target, used: Sequence[Use]) -> list[str]:
    pins = target.variant.pins
    majors = {name: value.split(".")[0] for name, value in pins.items()}
    requirements = [
        use.spec.wheel.format(pin=pins, major=majors, option=use.options)
        # Another order of blocks must not change the list: it decides whether a lock is stale.
        for use in sorted(used, key=lambda use: use.spec.name, reverse=True)
        if use.spec.wheel and all(use.options[name] == value for name, value in use.spec.wheel_when.items())
    ]
    pinned = {}
    for text in requirements:
        try:
            pinned[_project(text)] = text
        except InvalidRequirement:
            raise UsageError(f"{text} is not a version of a wheel", where_in(target, ("pins",))) from None
    for index, text in enumerate(target.variant.wheels):
        other = pinned.get(_project(text), text)
        if other != text:
            where = where_in(target, ("wheels", index))
            raise UsageError(f"wheel {text} contradicts the pin {other}", where, "remove it: its block installs it")
        if text not in requirements:
            requirements.append(text)
    return requirements
