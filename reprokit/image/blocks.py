"""The blocks that a variant uses: read from `images/blocks`, checked against the recipe before anything runs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from reprokit import paths
from reprokit.errors import UsageError
from reprokit.recipe import yaml
from reprokit.recipe.find import Target
from reprokit.recipe.spelling import nearest
from reprokit.recipe.where import where_in

_TYPES: dict[str, type] = {"boolean": bool, "integer": int, "string": str, "list": list}


@dataclass(frozen=True)
class Option:
    """One option of a block. `type` is boolean, integer, string or list (of strings)."""

    type: str
    default: bool | int | str | tuple[str, ...]
    does: str
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Spec:
    """What the front comment of a block's template says of it.

    `pins` it needs, blocks that must stand `after`-wards of, and the stage that its build part starts `build_from`:
    `base` (sources, which nothing before them changes) or `image` (everything that stands before the block).
    """

    name: str
    does: str
    pins: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    build_from: str = ""
    options: dict[str, Option] = None  # type: ignore[assignment]


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


@lru_cache(maxsize=None)
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
            tuple(value["default"]) if value["type"] == "list" else value["default"],
            value["does"],
            tuple(value.get("choices", ())),
        )
        for key, value in data.pop("options", {}).items()
    }
    known = {"does", "pins", "after", "build_from"}
    if set(data) - known:
        raise ValueError(f"{file}: unknown front fields {sorted(set(data) - known)}")
    return Spec(
        name, data["does"], tuple(data.get("pins", ())), tuple(data.get("after", ())), data.get("build_from", ""), options
    )


def uses(target: Target) -> tuple[Use, ...]:
    """The blocks of a variant in order, `base` first. Raises UsageError naming file, line and right spelling."""
    variant = target.variant
    found = [Use(spec("base"), {})]
    known = block_names()
    for index, block in enumerate(variant.blocks):
        at = ("blocks", index)
        placed = [use.spec.name for use in found]
        if block.name not in known:
            raise UsageError(
                f"unknown block {block.name!r}{nearest(block.name, known)}",
                where_in(target, at),
                f"blocks: {', '.join(known)}",
            )
        if block.name in placed:
            reason = "always comes first by itself" if block.name == "base" else "stands twice"
            raise UsageError(f"block {block.name} {reason}", where_in(target, at), "remove it here")
        this = spec(block.name)
        for needed in this.after:
            if needed not in placed:
                raise UsageError(
                    f"block {block.name} needs block {needed} before it",
                    where_in(target, at),
                    f"write {needed} before {block.name} in `blocks`",
                )
        for pin in this.pins:
            if pin not in variant.pins:
                raise UsageError(
                    f"block {block.name} needs the pin {pin}",
                    where_in(target, ("pins",)),
                    f'write `{pin}: "VERSION"` under `pins`',
                )
        found.append(Use(this, _options(target, (*at, block.name), this, block.options)))
    _nothing_forgotten(target, [use.spec.name for use in found])
    return tuple(found)


def _options(target: Target, at: tuple, this: Spec, given: dict[str, Any]) -> dict[str, Any]:
    filled: dict[str, Any] = {name: option.default for name, option in this.options.items()}
    for name, value in given.items():
        option = this.options.get(name)
        if option is None:
            offered = ", ".join(this.options) or "none"
            raise UsageError(
                f"block {this.name} has no option {name!r}{nearest(name, this.options)}",
                where_in(target, (*at, name)),
                f"options of {this.name}: {offered}",
            )
        if type(value) is not _TYPES[option.type]:
            raise UsageError(
                f"option {name} of block {this.name} is a {option.type}, not {value!r}", where_in(target, (*at, name))
            )
        if option.choices and value not in option.choices:
            raise UsageError(
                f"option {name} of block {this.name} cannot be {value!r}{nearest(str(value), option.choices)}",
                where_in(target, (*at, name)),
                f"choices: {', '.join(option.choices)}",
            )
        filled[name] = tuple(value) if isinstance(value, list) else value
    return filled


def _nothing_forgotten(target: Target, placed: list[str]) -> None:
    for field, block in (("apt", "apt"), ("wheels", "wheels"), ("sources", "git")):
        if getattr(target.variant, field) and block not in placed:
            raise UsageError(
                f"`{field}` names what no block installs", where_in(target, (field,)), f"add {block} to `blocks`"
            )


def option(target: Target, block: str, name: str) -> Any:
    """The value of a block's option in a variant, None where the variant does not use the block."""
    return next((use.options[name] for use in uses(target) if use.spec.name == block), None)


def wheel_requirements(target: Target) -> list[str]:
    """Every exact requirement of a variant, as one set for pip: those of its blocks first, then its own `wheels`."""
    variant = target.variant
    names = [use.spec.name for use in uses(target)]
    found: list[str] = []
    if "torch" in names:
        found.append(f"torch=={variant.pins['torch']}")
    if "dgl" in names:
        found.append(f"{option(target, 'dgl', 'package')}=={variant.pins['dgl']}")
    if "cudnn" in names and option(target, "cudnn", "from") == "wheel":
        found.append(f"nvidia-cudnn-cu{variant.pins['cuda'].split('.')[0]}=={variant.pins['cudnn']}")
    return [*found, *(w for w in variant.wheels if w not in found)]
