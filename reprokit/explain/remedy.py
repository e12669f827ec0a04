"""A remedy as changes to the recipe that failed, with file and line, in place of commands for a machine made by hand.

A rule's remedy is written for any log. Its commands name what they install; with a recipe at hand, an `apt-get install`
becomes an entry of `packages` or `apt`, a `pip install` an entry of `wheels`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from reprokit.explain.model import Cause
from reprokit.paths import from_here
from reprokit.recipe.blocks import block_names, block_spec
from reprokit.recipe.find import Target

_PREFIX = "/variants/*/"
# Remedies for the machine that the engine runs on, which no recipe changes.
OF_HOST = re.compile(
    r"\bsudo\b|systemctl|journalctl|daemon\.json|dockerd|podman|apptainer|singularity|enroot|nvidia-ctk|slurm|\.docker/"
    r"|docker (?:info|login|ps|images|pull|compose|buildx|context|network|volume)"
)
_APT = re.compile(
    r"\bapt(?:-get|-file)? (?:install|search|update)|-dev package\b|install (?:the|that) package\b|^install lib\S+$"
)
_PIP = re.compile(r"\bpip3? (?:install|index)|^python3? -m pip ")
# What is to be installed has no name in the remedy.
_UNNAMED_APT = re.compile(
    r"apt-file search|-dev package\b|install (?:the|that) package\b|apt-get install (?:-\S+ )*\S*\.\.\."
)
_UNNAMED_WHEEL = re.compile(r"pip3? install (?:-\S+ )*(?:\.\.\.|it\b|the |that |PACKAGE|NAME)")
_SUBMODULES = re.compile(r"\bgit submodule update")
_FOLDER = re.compile(r"\bCOPY\b|\bWORKDIR\b|ls -l the path|\bpwd\b")
_OTHER = re.compile(
    r"\b(?:conda|mamba|micromamba) install|Dockerfile|\bdocker (?:run|build|exec)|\b(?:dnf|yum) |\bENV PATH\b"
)
_BY_HAND = (_APT, _PIP, _SUBMODULES, _FOLDER, _OTHER)
_APT_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]+")
# Words after a command that are no packages, such as `apt-get install gnupg before`.
_WORDS = re.compile(
    r"an?|again|and|before|brings|by|for|from|in|it|of|on|or|package|solves|that|the|them|this|to|together|where|with\w*"
)
# Fields that change no input of the image.
_OF_RUNS = frozenset(("shm", "env"))
# Fields about the machine's memory, disk and processors. What to do there comes before them.
_OF_RESOURCES = frozenset(("requires", "build_args"))


@dataclass(frozen=True)
class Subject:
    """What failed: a variant of a recipe, and the block if one was being built."""

    target: Target
    block: str = ""


def remedy(cause: Cause, subject: Subject | None = None) -> list[str]:
    """The steps of a cause's remedy; for a recipe, what to change in which line of it."""
    written = cause.remedy.strip().splitlines()
    if subject is None or OF_HOST.search(cause.remedy):
        return written
    clauses = [clause for line in written for clause in _clauses(line)]
    general = [clause for clause in clauses if not any(each.search(clause) for each in _BY_HAND)]
    changes = cause.recipe_change or list(_installed(clauses))
    edits = list(_Edits(subject).of(changes, clauses))
    if not edits:
        own = general or [f"change what the recipe installs and runs, {from_here(subject.target.where(()))}"]
        return written if len(general) == len(clauses) else ["; ".join(own)]
    steps, label = "; ".join(edits), subject.target.label
    if changes and all(_field(change) in _OF_RESOURCES for change in changes):
        return ["; ".join(general), f"in the recipe: {steps}"] if general else [steps]
    if not changes or any(_field(change) not in _OF_RUNS for change in changes):
        steps += f"; then `reprokit lock {label}` and `reprokit build {label}`"
    return [steps, *([f"otherwise: {'; '.join(general)}"] if general else [])]


def change_in_words(change: Mapping[str, Any]) -> str:
    """A change to any recipe, without its line."""
    path, value = str(change["path"]).removeprefix(_PREFIX), change["value"]
    name = path.removesuffix("/-").replace("/", ".")
    if value is None:
        return f"choose another `{name}`"
    return f"add {_yaml(value)} to `{name}`" if path.endswith("/-") else f"set `{name}` to {_yaml(value)}"


def _clauses(line: str) -> list[str]:
    """The alternatives and steps of a line, which `;` and `, or` separate outside of parentheses."""
    parts, depth, start = [], 0, 0
    for match in re.finditer(r"[(\[{]|[)\]}]|; (?:or:? )?|, or:? ", line):
        if match[0] in "([{":
            depth += 1
        elif match[0] in ")]}":
            depth -= 1
        elif depth <= 0:
            parts.append(line[start : match.start()])
            start = match.end()
    return [part.strip() for part in [*parts, line[start:]] if part.strip()]


def _installed(clauses: Iterable[str]) -> Iterator[dict[str, Any]]:
    """What the commands of a remedy install, as changes to a recipe."""
    for clause in clauses:
        for match in re.finditer(r"\bapt-get install(?P<names>(?: \S+)+)", clause):
            for name in _packages(match["names"]):
                yield {"op": "add", "path": f"{_PREFIX}apt/-", "value": name}
        for match in re.finditer(r"\bpip3? install(?P<names>(?: \S+)+)", clause):
            for requirement in _requirements(match["names"]):
                yield {"op": "add", "path": f"{_PREFIX}wheels/-", "value": requirement}
        if _SUBMODULES.search(clause):
            yield {"op": "add", "path": f"{_PREFIX}sources/0/submodules", "value": True}


def _packages(words: str) -> Iterator[str]:
    for word in words.split():
        name = word.rstrip(",")
        if name.startswith("-"):
            continue
        if _WORDS.fullmatch(name) or ".." in name or not _APT_NAME.fullmatch(name):
            return
        yield name
        if word != name:
            return


def _requirements(words: str) -> Iterator[str]:
    """Requirements by name and version. Options such as `-e .` install something else, or for another reason."""
    for word in words.split():
        name = word.rstrip(",:").strip("'\"")
        if name in ("-U", "--upgrade", "-y"):
            continue
        if _WORDS.fullmatch(name) or name.startswith("-") or not name[:1].islower():
            return
        try:
            yield str(Requirement(name))
        except InvalidRequirement:
            return
        if word.endswith((",", ":")):
            return


def _project(requirement: str) -> str:
    match = re.match(r"[\w.-]+(?=$|[<>=!~\[;@ ])", requirement)
    return canonicalize_name(match[0]) if match else ""


def _field(change: Mapping[str, Any]) -> str:
    return str(change["path"]).removeprefix(_PREFIX).partition("/")[0]


def _yaml(value: Any) -> str:
    if isinstance(value, dict | list | bool):
        return f"`{yaml.safe_dump(value, default_flow_style=True, width=1000).strip().removesuffix('...').strip()}`"
    return str(value)


class _Edits:
    """Changes to the recipe of a failure, in words."""

    def __init__(self, subject: Subject) -> None:
        self._target, self._variant = subject.target, subject.target.variant
        named = [index for index, block in enumerate(self._variant.blocks) if block.name == subject.block]
        # One of several uses of a block cannot be told from the others.
        self._block = named[0] if len(named) == 1 else None

    def of(self, changes: Sequence[Mapping[str, Any]], clauses: Sequence[str]) -> Iterator[str]:
        """One sentence for all packages of a kind, one for each other change, and one for what has no name."""
        if any(_FOLDER.search(clause) for clause in clauses):
            yield self._folder()
        for field in ("apt", "wheels"):
            values = [str(change["value"]) for change in changes if _field(change) == field and change["value"]]
            if values:
                yield from self._apt(values) if field == "apt" else self._wheels(values)
        for change in changes:
            if _field(change) not in ("apt", "wheels") and (edit := self._other(change)):
                yield edit
        if any(_field(change) != "sources" for change in changes):
            return
        if any(_UNNAMED_APT.search(clause) for clause in clauses):
            yield from self._apt(["the package of the distribution that has it"])
        elif any(_UNNAMED_WHEEL.search(clause) for clause in clauses):
            yield from self._wheels(["the Python package that it needs"])

    def _where(self, *path: str | int) -> str:
        return from_here(self._target.where(path))

    def _options(self) -> tuple[str, Mapping[str, Any]]:
        """The failed block's name, and the options that it declares; nothing outside of a bundled block."""
        name = "" if self._block is None else self._variant.blocks[self._block].name
        return (name, block_spec(name).options) if name in block_names() else ("", {})

    def _in_block(self, option: str) -> str:
        assert self._block is not None
        return self._where("blocks", self._block, self._variant.blocks[self._block].name, option)

    def _apt(self, names: Sequence[str]) -> Iterator[str]:
        block, options = self._options()
        if "packages" in options:
            yield f"add {_listed(names)} to `packages` of the block {block}, {self._in_block('packages')}"
        else:
            yield f"add {_listed(names)} to `apt`, {self._where('apt')}{self._with_block('apt')}"

    def _wheels(self, requirements: Sequence[str]) -> Iterator[str]:
        pinned: dict[str, str] = {canonicalize_name(pin): pin for pin in self._variant.pins}
        added = []
        for requirement in requirements:
            name = _project(requirement)
            if name in pinned:
                yield f"set the pin `{pinned[name]}` to a version of {requirement}, {self._where('pins', pinned[name])}"
            elif replaced := self._replaced_wheel(name, requirement):
                yield replaced
            else:
                added.append(requirement)
        if added:
            yield f"add {_listed(added)} to `wheels`, {self._where('wheels')}{self._with_block('wheels')}"

    def _replaced_wheel(self, project: str, requirement: str) -> str:
        """The change of the entry of a project in `wheels`; empty without one."""
        for index, entry in enumerate(self._variant.wheels):
            if isinstance(entry, str) and _project(entry) == project:
                return f"replace `{entry}` by {requirement} in `wheels`, {self._where('wheels', index)}"
        return ""

    def _with_block(self, name: str) -> str:
        used = any(block.name == name for block in self._variant.blocks)
        return "" if used else f", and the block `{name}` to `blocks`, {self._where('blocks')}"

    def _folder(self) -> str:
        block, options = self._options()
        named = " and ".join(f"`{name}:`" for name in ("source", "folder") if name in options)
        if not named:
            return f"check `workdir` and the `path` of `sources`, {self._where('workdir')}"
        return f"check {named} of the block {block}, {self._in_block('folder' if 'folder' in options else 'source')}"

    def _other(self, change: Mapping[str, Any]) -> str:
        path, value = str(change["path"]).removeprefix(_PREFIX).split("/"), change["value"]
        field = path[0]
        if field == "pins":
            where = self._where(*path)
            if value is None:
                return f"choose another version of the pin `{path[1]}`, {where}"
            if path[1] in self._variant.pins:
                return f'set the pin `{path[1]}` to "{value}", {where}'
            project = canonicalize_name(path[1])
            added = f'add `{path[1]}: "{value}"` to `pins`, {where}'
            return self._replaced_wheel(project, f"{project}=={value}") or added
        if value is None:
            return f"choose another `{'.'.join(path)}`, {self._where(*path)}"
        if field == "sources":
            sources = self._variant.sources
            if not sources or sources[0].submodules is True:
                return ""
            return f"set `submodules: true` of the source {sources[0].name}, {self._where('sources', 0)}"
        if path[-1] == "-":
            return f"add {_yaml(value)} to `{field}`, {self._where(field)}"
        return f"set `{'.'.join(path)}` to {_yaml(value)}, {self._where(*path)}"


def _listed(names: Sequence[str]) -> str:
    *first, last = dict.fromkeys(names)
    return f"{', '.join(first)} and {last}" if first else last
