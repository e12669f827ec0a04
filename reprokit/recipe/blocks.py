"""The blocks that recipes can use, each described by the front comment of its template `images/blocks/NAME.j2`."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from reprokit import paths
from reprokit.recipe import yaml


class _Front(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class OptionSpec(_Front):
    """One option of a block. `source` and `sources` name entries of the variant's `sources`."""

    type: Literal["boolean", "string", "list", "source", "sources"]
    default: bool | str | tuple[str, ...]
    does: str
    choices: tuple[str, ...] = ()


class BlockSpec(_Front):
    """What a block is, needs and installs.

    `pins` are the pins it needs, `after` the blocks that must come before it. `build_from` is the stage that its build
    part starts from: `base` (sources, which nothing changes) or `image` (everything before the block). `installs` is
    the list of the variant that it installs, `argument` the build argument with the address of what is locked, as
    NAME=DEFAULT. `wheel` is a wheel that it needs from the block wheels, written with `{pin[NAME]}`, `{major[NAME]}`
    and `{option[NAME]}`, if its options have the values of `wheel_when`.
    """

    name: str
    does: str
    pins: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    build_from: Literal["", "base", "image"] = ""
    installs: Literal["", "sources", "apt", "wheels", "files", "conda"] = ""
    argument: str = ""
    wheel: str = ""
    wheel_when: dict[str, str] = {}
    options: dict[str, OptionSpec] = {}


def templates() -> Path:
    """The folder of the templates; the blocks are in `blocks/`."""
    return paths.data_root() / "images"


def block_names() -> list[str]:
    return sorted(file.stem for file in (templates() / "blocks").glob("*.j2"))


@cache
def block_spec(name: str) -> BlockSpec:
    """The front comment of the block called `name`, which exists."""
    file = templates() / "blocks" / f"{name}.j2"
    front = re.match(r"\{#\n(.*?)#\}", file.read_text(encoding="utf-8"), re.DOTALL)
    if front is None:
        raise ValueError(f"{file} has no front comment")
    return BlockSpec.model_validate({"name": name, **yaml.read(front[1], str(file)).data})
