"""The blocks that a variant uses: read from `images/blocks`, checked against the recipe beforehand."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from reprokit import paths
from reprokit.errors import UsageError
from reprokit.recipe import yaml
from reprokit.recipe.find import Target
from reprokit.recipe.model import Block
from reprokit.recipe.spelling import nearest
from reprokit.recipe.where import where_in

# The types of options in front comments; `source` and `sources` name entries of the variant's `sources`.
_TYPES: dict[str, Any] = {"boolean": bool, "string": str, "list": list, "source": str, "sources": list}


@dataclass(frozen=True)
class Option:
    """One option of a block. `type` is a key of `_TYPES`."""

    type: str
    default: bool | str | tuple[str, ...]
    does: str
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Spec:
    """What the front comment of a block's template says of it.

    `pins` are those it needs, `after` the blocks that must stand before it. `build_from` is where its build
    part starts: `base` (sources, which nothing changes) or `image` (all that stands before the block).
    """

    name: str
    does: str
    pins: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    build_from: str = ""
    options: Mapping[str, Option] = field(default_factory=dict)


@dataclass(frozen=True)
class Use:
    """A block in a variant, its options filled with their defaults."""

    spec: Spec
    options: dict[str, Any]


def templates() -> Path:
    """The folder of the templates, blocks in `blocks/`."""
    return paths.data_root() / "images"


def block_names() -> list[str]:
    return sorted(file.stem for file in (templates() / "blocks").glob("*.j2"))


@cache
def spec(name: str) -> Spec:
    """The spec of the block called `name`, which exists."""
    file = templates() / "blocks" / f"{name}.j2"
    front = re.match(r"\{#\n(.*?)#\}", file.read_text(encoding="utf-8"), re.DOTALL)
    if front is None:
        raise ValueError(f"{file} has no front comment")
    data = yaml.read(front[1], str(file)).data
    options = {
        key: Option(
            value["type"],
            tuple(value["default"]) if isinstance(value["default"], list) else value["default"],
            value["does"],
            tuple(value.get("choices", ())),
        )
        for key, value in data.pop("options", {}).items()
    }
    known = {"does", "pins", "after", "build_from"}
    if set(data) - known:
        raise ValueError(f"{file}: unknown front fields {sorted(set(data) - known)}")
    return Spec(
        name,
        data["does"],
        tuple(data.get("pins", ())),
        tuple(data.get("after", ())),
        data.get("build_from", ""),
        options,
    )


def uses(target: Target) -> tuple[Use, ...]:
    """The blocks of a variant in order, `base` first. Raises UsageError naming file, line and spelling."""
    found: list[Use] = []
    for index, block in enumerate(_with_base(target.variant.blocks)):
        # The base that we put first is nowhere in the file; the others stand one place earlier there.
        at = ("blocks", index - len(_with_base(target.variant.blocks)) + len(target.variant.blocks))
        this = _placed(target, at, block.name, [use.spec.name for use in found])
        found.append(Use(this, _options(target, (*at, block.name), this, block.options)))
    _nothing_forgotten(target, found)
    return tuple(found)


def _with_base(blocks: list[Block]) -> list[Block]:
    return blocks if blocks and blocks[0].name == "base" else [Block(name="base"), *blocks]


def _placed(target: Target, at: tuple, name: str, before: list[str]) -> Spec:
    """The spec of a block that may stand behind those `before` it."""
    known = block_names()
    if name not in known:
        hint = f"blocks: {', '.join(known)}"
        raise UsageError(f"unknown block {name!r}{nearest(name, known)}", where_in(target, at), hint)
    if name in before or (name == "base" and before):
        reason = "stands twice" if name in before[1:] else "comes first, before every other block"
        raise UsageError(f"block {name} {reason}", where_in(target, at), "remove it here")
    for needed in spec(name).after:
        if needed not in before:
            raise UsageError(
                f"block {name} needs block {needed} before it",
                where_in(target, at),
                f"write {needed} before {name} in `blocks`",
            )
    for pin in spec(name).pins:
        if pin not in target.variant.pins:
            raise UsageError(
                f"block {name} needs the pin {pin}",
                where_in(target, ("pins",)),
                f'write `{pin}: "VERSION"` under `pins`',
            )
    return spec(name)


def _options(target: Target, at: tuple, this: Spec, given: dict[str, Any]) -> dict[str, Any]:
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


def _problem(option: Option, value: Any, sources: list[str]) -> str:
    """What is wrong with an option's value, if anything."""
    wanted = _TYPES[option.type]
    if type(value) is not (tuple if wanted is list else wanted):
        return f"is a {option.type}, not {value!r}"
    if option.choices and value not in option.choices:
        return f"cannot be {value!r}{nearest(str(value), option.choices)} (choices: {', '.join(option.choices)})"
    if option.type.startswith("source"):
        for name in [value] if isinstance(value, str) else value:
            if name not in sources:
                return f"names {name!r}, which is no entry of `sources`{nearest(name, sources)}"
    return ""


def _nothing_forgotten(target: Target, found: list[Use]) -> None:
    """What a variant lists, a block installs; and a block that installs lists has one."""
    placed = {use.spec.name: use.options for use in found}
    from_blocks = {"torch", "dgl"} & {*placed} or placed.get("cudnn", {}).get("from") == "wheel"
    for name, block, entries in (
        ("apt", "apt", target.variant.apt),
        ("wheels", "wheels", target.variant.wheels or from_blocks),
        ("sources", "git", target.variant.sources),
        ("files", "files", target.variant.files),
        ("conda", "conda", target.variant.conda),
    ):
        if block in placed and not entries:
            raise UsageError(f"block {block} has nothing to install", where_in(target, ("blocks",)), "remove it")
        if entries and block not in placed:
            at = where_in(target, (name,))
            raise UsageError(f"`{name}` names what no block installs", at, f"add {block} to `blocks`")
    if target.variant.sdists and not any(_project(text) == "setuptools" for text in target.variant.wheels):
        raise UsageError(
            "`sdists` are built with what `wheels` pins, and setuptools is not there",
            where_in(target, ("sdists",)),
            "add setuptools==VERSION to `wheels`, and wheel==VERSION where setuptools is older than 70.1",
        )


def _project(requirement: str) -> str:
    return canonicalize_name(Requirement(requirement).name)


def wheel_requirements(target: Target) -> list[str]:
    """Every exact requirement of a variant, as one set for pip: its blocks' first, then its own `wheels`.

    Raises UsageError where the two disagree, or a pin is no wheel's version.
    """
    pins = target.variant.pins
    options = {use.spec.name: use.options for use in uses(target)}
    found: dict[str, str] = {}
    if "torch" in options:
        found["torch"] = pins["torch"]
    if "dgl" in options:
        found[options["dgl"]["package"]] = pins["dgl"]
    if "cudnn" in options and options["cudnn"]["from"] == "wheel":
        found[f"nvidia-cudnn-cu{pins['cuda'].split('.')[0]}"] = pins["cudnn"]
    requirements = [f"{name}=={version}" for name, version in found.items()]
    for text in requirements:
        try:
            Requirement(text)
        except InvalidRequirement:
            raise UsageError(f"{text} is no version that a wheel can have", where_in(target, ("pins",))) from None
    for index, text in enumerate(target.variant.wheels):
        name = _project(text)
        if name in found and f"{name}=={found[name]}" != text:
            at = where_in(target, ("wheels", index))
            raise UsageError(f"wheel {text} contradicts the pin {found[name]}", at, "remove it: its block installs it")
        if text not in requirements:
            requirements.append(text)
    return requirements
