"""The blocks that recipes can use, each described by the front comment of its template `NAME.j2`.

Bundled blocks are in `images/blocks`. A user's own blocks are in a folder `blocks` beside the recipe, or in a folder of
`$REPROKIT_BLOCKS`. They may come from strangers, so they can do less: see `OwnFront` and `reprokit.image.own_blocks`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, ValidationError

from reprokit import paths
from reprokit.errors import UsageError
from reprokit.recipe import fields as f
from reprokit.recipe import yaml
from reprokit.recipe.explain import explained
from reprokit.untrusted import files
from reprokit.untrusted.model import FrozenModel

MOST = 64 << 10  # bytes of an own block; the largest bundled one has 6 KiB
# A block is also a stage of the Dockerfile, where these names have another meaning.
_NAME = re.compile(r"(?!(?:base|image|env|scratch|context)$|with-)[a-z][a-z0-9]*([._-][a-z0-9]+)*")
_FRONT = re.compile(r"\{#\n(.*?)#\}", re.DOTALL)
_HINT = "write lines such as `does: what it is for` there; others are pins, after, build_from, options"
_Short = Annotated[f.Line, StringConstraints(max_length=300)]


class OptionSpec(FrozenModel):
    """One option of a block. `source` and `sources` name entries of the variant's `sources`, `secrets` a build's."""

    type: Literal["boolean", "string", "list", "source", "sources", "secrets"]
    default: bool | str | tuple[str, ...]
    does: _Short
    choices: tuple[str, ...] = ()
    required: bool = False


class OwnFront(FrozenModel):
    """The fields of an own block's front comment."""

    does: _Short = Field(description="one sentence for `reprokit list --blocks`")
    pins: tuple[f.Name, ...] = Field(default=(), description="pins that it needs")
    after: tuple[f.Name, ...] = Field(default=(), description="blocks that must come before it")
    build_from: Literal["", "base", "image"] = Field(
        default="",
        description="the stage that its part `build` starts from: `base` (sources, which nothing changes) or `image` "
        "(everything before the block)",
    )
    options: dict[f.EnvName, OptionSpec] = Field(default={}, description="its options by name")


class Bound(FrozenModel):
    """A requirement of releases before `below` that their metadata lacks."""

    below: f.Version
    wheel: str


class BlockSpec(OwnFront):
    """The needs and effects of a block.

    `installs` is the field of the variant whose entries it installs, such as `apt`. `wheel` is a wheel that it needs
    from the block wheels, written with `{pin[NAME]}`, `{major[NAME]}` and `{option[NAME]}`, if its options have the
    values of `wheel_when`. If `alone`, the block installs it by itself, with its dependencies and without the variant's
    other pins: recipes share that layer; `bounds` limit these dependencies. `differs` maps patterns of paths that
    differ between two builds of a lock to the reasons (`*` also matches `/`); none differ in variants without the pin
    `differs_with`. With `build_args` its commands see the variant's `build_args`. A block that `repeats` can be used
    several times. `made_of` decides the order: packages first, then sources and compiled code; no block moves past one
    of `anything`. `instead_of` are tools that users may look for, each with the way this block replaces it.
    """

    name: str
    installs: str = ""
    wheel: str = ""
    wheel_when: dict[str, str] = Field(default={})
    alone: bool = False
    bounds: tuple[Bound, ...] = ()
    differs: dict[str, str] = Field(default={})
    differs_with: str = ""
    build_args: bool = False
    repeats: bool = False
    made_of: Literal["packages", "sources", "anything"] = "packages"
    instead_of: dict[str, str] = Field(default={})


@dataclass(frozen=True)
class OwnBlock:
    """An own block: its file, its front comment, and its text."""

    path: Path
    spec: BlockSpec
    template: str


def templates() -> Path:
    """The folder of the bundled templates; the blocks are in `blocks/`."""
    return paths.data_root() / "images"


def shared_template(name: str) -> str:
    """The text of a bundled template that blocks include, such as `expect.j2`."""
    return (templates() / name).read_text(encoding="utf-8")


def block_names() -> tuple[str, ...]:
    """The bundled blocks."""
    return _names_in(templates() / "blocks")


@cache
def _names_in(folder: Path) -> tuple[str, ...]:
    return tuple(sorted(file.stem for file in folder.glob("*.j2")))


@cache
def block_spec(name: str) -> BlockSpec:
    """The front comment of the bundled block `name`."""
    file = templates() / "blocks" / f"{name}.j2"
    front = _FRONT.match(file.read_text(encoding="utf-8"))
    if front is None:
        raise ValueError(f"{file} has no front comment")
    return BlockSpec.model_validate({"name": name, **yaml.read(front[1], str(file)).data})


def argument(kind: str, block: str) -> str:
    """The build argument for the address of a block's set: `REPROKIT_APT_CUDA`, `REPROKIT_FILES` for block `files`."""
    own = "" if block == kind else re.sub("[^A-Z0-9]", "_", f"_{block.upper()}")
    return f"REPROKIT_{kind.upper()}{own}"


def own_block_files(recipes: list[Path]) -> dict[str, Path]:
    """The files of own blocks by name: beside recipes of these folders, then in `$REPROKIT_BLOCKS`; the first wins."""
    own: dict[str, Path] = {}
    for folder in [*(recipe / "blocks" for recipe in recipes), *paths.block_dirs()]:
        if not folder.is_dir():
            continue
        with files.Folder(folder) as opened:
            names = sorted(entry.removeprefix("./") for entry, _, _ in opened.entries("."))
        for name in names:
            if name.endswith(".j2") and "/" not in name:
                own.setdefault(name.removesuffix(".j2"), folder / name)
    return own


def block_text(path: Path) -> bytes:
    """The file of an own block. Raises UsageError, also for links."""
    try:
        with files.Folder(path.parent) as folder:
            return folder.read(path.name, MOST)
    except OSError as error:
        raise UsageError(f"cannot read the block: {error}", str(path)) from None


def own_block(path: Path) -> OwnBlock:
    """Read an own block. Raises UsageError naming file and line."""
    where = str(path)
    if not _NAME.fullmatch(path.stem) or path.stem in block_names():
        raise UsageError(f"a block cannot be called {path.stem!r}, which has another meaning", where, "rename the file")
    try:
        text = block_text(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"cannot read the block: {error}", where) from None
    front = _FRONT.match(text)
    if front is None:
        raise UsageError("the block does not begin with a comment {# ... #} that describes it", where, _HINT)
    document = yaml.read("\n" + front[1], where)
    try:
        stated: Any = OwnFront.model_validate(document.data).model_dump(exclude_unset=True)
    except ValidationError as error:
        raise explained(error, document, OwnFront, _HINT) from None
    return OwnBlock(path, BlockSpec(name=path.stem, build_args=True, made_of="anything", **stated), text)
