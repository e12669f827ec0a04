"""The user's configuration: mirrors with the source of each, hosts, nodes, workspace roots."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    TypeAdapter,
    ValidationError,
    create_model,
)

from reprokit import paths
from reprokit.config import templates
from reprokit.config.nodes import Node, WrittenNodes, nodes_of
from reprokit.errors import UsageError, unread
from reprokit.recipe import yaml
from reprokit.recipe.explain import explained
from reprokit.recipe.fields import Size
from reprokit.recipe.spelling import nearest
from reprokit.redact import redact
from reprokit.untrusted.model import FrozenModel

KINDS = tuple(templates.PLACEHOLDERS)
_PAGE = "`reprokit help mirrors` describes the file; `reprokit config --init` writes one to start from"


_LISTS: dict[str, Any] = {kind: (tuple[templates.mirror(kind), ...], ()) for kind in KINDS}  # type: ignore[misc]


class Lists(create_model("_Lists", __base__=FrozenModel, **_LISTS)):  # type: ignore[misc]
    """The mirrors of the file or of a preset: a list for each kind, in the order to try."""


def _preset(name: str) -> str:
    if name not in presets():
        raise ValueError(f"no such preset: {name!r}{nearest(name, presets())} (presets are {', '.join(presets())})")
    return name


class Fetch(FrozenModel):
    """Limits of downloads: `stall` in seconds without a byte, `slowest` in bytes a second over a minute."""

    parallel: Annotated[int, Field(ge=1, le=32)] = 6
    stall: Annotated[float, Field(ge=1, le=3600)] = 30
    slowest: Size = 4096


def _absolute(path: str) -> Path:
    try:
        expanded = paths.expanded(path)
    except UsageError as error:
        raise ValueError(error.message) from None
    if not expanded.is_absolute():
        raise ValueError(f"{path!r} is not an absolute path")
    return expanded


class ConfigFile(FrozenModel):
    """The user's file (`paths.config_file()`)."""

    presets: tuple[Annotated[str, AfterValidator(_preset)], ...] = ()
    mirrors: Lists = Field(default_factory=Lists)
    fetch: Fetch = Field(default_factory=Fetch)
    nodes: WrittenNodes = Field(default_factory=dict)
    workspace_roots: tuple[Annotated[Path, BeforeValidator(_absolute)], ...] = ()
    hosts: tuple[templates.Host, ...] = ()


@dataclass(frozen=True)
class MirrorEntry:
    """One mirror. `value` is a template, or a registry's name; `source` a variable, `FILE:LINE` or a preset."""

    kind: str
    value: str = field(repr=False)
    source: str


@dataclass(frozen=True)
class Configuration:
    """All settings. The mirrors of variables come first, then those of the file, then those of its presets.

    `hosts` (`HOST[:PORT]`) may have private addresses, and get the user's credentials over https.
    """

    entries: tuple[MirrorEntry, ...] = ()
    fetch: Fetch = field(default_factory=Fetch)
    nodes: tuple[Node, ...] = ()
    workspace_roots: tuple[Path, ...] = ()
    hosts: tuple[str, ...] = ()

    def of(self, kind: str) -> tuple[str, ...]:
        """The mirrors of one of `KINDS`, each once."""
        return tuple(dict.fromkeys(entry.value for entry in self.entries if entry.kind == kind))


def load(file: Path | None = None, environment: Mapping[str, str] = os.environ) -> Configuration:
    """Read the variables and the file, by default the user's own. A missing file counts as empty.

    Raises UsageError naming the variable, or file, line and field.
    """
    path = file or paths.config_file()
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        if file is None and os.environ.get("REPROKIT_CONFIG"):
            hint = "correct the variable, or write the file with `reprokit config --init`"
            raise UsageError("REPROKIT_CONFIG names no file", str(path), hint) from None
        text = ""
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the configuration: {unread(error)}", str(path)) from None
    document = yaml.read(text, str(path))
    try:
        written = ConfigFile.model_validate({} if document.data is None else document.data)
    except ValidationError as error:
        wrong = explained(error, document, ConfigFile, _PAGE)
        raise UsageError(redact(wrong.message), wrong.where, wrong.hint or _PAGE) from None
    entries = (*_variables(environment), *_entries(written, document))
    return Configuration(entries, written.fetch, nodes_of(written.nodes), written.workspace_roots, written.hosts)


def workspace_roots() -> list[Path]:
    """The folders of `workspace_roots` in the file.

    Raises UsageError for a root that is missing, writable by other users, or inside another root: its entries could be
    replaced by links, which the engine would follow.
    """
    roots = [path.resolve() for path in load().workspace_roots]
    folders = [*roots, paths.workspaces().resolve()]
    for root in roots:
        wrong = ""
        if not root.is_dir():
            wrong = "is not a folder"
        elif root.stat().st_uid not in (0, os.getuid()) or root.stat().st_mode & 0o022:
            wrong = "can be written to by others"
        elif any(root.is_relative_to(other) for other in folders if other != root):
            wrong = "is inside another one"
        if wrong:
            raise UsageError(f"the workspace root {root} {wrong}", str(paths.config_file()), "name another folder")
    return roots


def starting_text() -> str:
    """A commented file to start from."""
    return Path(__file__).with_name("start.yaml").read_text(encoding="utf-8")


def variable(kind: str) -> str:
    """The name of the variable for a kind's mirrors, which are separated by commas."""
    return f"REPROKIT_{kind.upper()}_MIRRORS"


def mirror_hint(*kinds: str) -> str:
    """The remedy if no host of these kinds can be reached."""
    variables = [variable(kind) for kind in kinds if kind in KINDS]
    name = f", or name a mirror in {' and '.join(variables)} or the configuration" if variables else ""
    return f"check the network and its proxy{name}: `reprokit help mirrors`"


def _variables(environment: Mapping[str, str]) -> Iterator[MirrorEntry]:
    for kind in KINDS:
        written = [part.strip() for part in environment.get(variable(kind), "").split(",")]
        try:
            lists = Lists.model_validate({kind: [part for part in written if part]})
        except ValidationError as error:
            message = error.errors()[0]["msg"].removeprefix("Value error, ")
            raise UsageError(redact(message), f"${variable(kind)}", _PAGE) from None
        for value in getattr(lists, kind):
            yield MirrorEntry(kind, value, f"${variable(kind)}")


def _entries(file: ConfigFile, document: yaml.Document) -> Iterator[MirrorEntry]:
    for kind in KINDS:
        for number, value in enumerate(getattr(file.mirrors, kind)):
            yield MirrorEntry(kind, value, f"{document.where}:{document.line(('mirrors', kind, number))}")
    for name in file.presets:
        for kind in KINDS:
            yield from (MirrorEntry(kind, value, f"preset {name}") for value in getattr(presets()[name], kind))


@cache
def presets() -> dict[str, Lists]:
    """The mirror lists that come with reprokit, by name."""
    path = Path(__file__).with_name("presets.yaml")
    data = yaml.read(path.read_text(encoding="utf-8"), path.name).data
    return TypeAdapter(dict[str, Lists]).validate_python(data)
