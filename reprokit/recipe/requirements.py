"""A variant's requirements of Python packages: its own, and those of files beside the recipe. Files are only parsed."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from tempfile import NamedTemporaryFile
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from reprokit.errors import UsageError
from reprokit.recipe import beside
from reprokit.recipe import fields as f
from reprokit.recipe.environment import pip_requirements
from reprokit.recipe.find import Target, where_in
from reprokit.recipe.packages import RequirementsFile
from reprokit.recipe.spelling import nearest
from reprokit.redact import redact
from reprokit.untrusted.documents import first_fault
from reprokit.untrusted.time_limit import processor_time

_FILES = 50
_DEEPEST = 50
_LONGEST = 32_000
_SECONDS = 3.0
_INDEXES = ("index_url", "extra_index_urls", "find_links")
# Every file is locked by checksum, and wheels always come first.
_ALREADY_SO = ("require_hashes", "prefer_binary")
_ENTRY = TypeAdapter[str](f.WheelRequirement)


@dataclass(frozen=True)
class Required:
    """One requirement. `where` finds its place; `sha256` are the checksums that its file allows, if it states any."""

    text: str
    where: Callable[[], str]
    sha256: frozenset[str] = frozenset()


def required(target: Target) -> list[Required]:
    """The requirements of a variant's `wheels`, in order. Raises UsageError naming file and line."""
    return _limited(target)[0]


def required_files(target: Target) -> set[str]:
    """The files of a variant's `wheels`, with those that they name. Raises UsageError as `required`."""
    return _limited(target)[1]


def _limited(target: Target) -> tuple[list[Required], set[str]]:
    # Patterns of pip's parser take quadratic time, and so does TOML with long keys.
    with processor_time(_SECONDS, f"a file of the requirements of {target.label}", str(target.path)):
        return _read(target)


def _read(target: Target) -> tuple[list[Required], set[str]]:
    found: list[Required] = []
    files: set[str] = set()
    for index, entry in enumerate(target.variant.wheels):
        where = partial(where_in, target, ("wheels", index))
        if isinstance(entry, str):
            found.append(Required(entry, where))
            continue
        reading = _Reading(target)
        if entry.form == "project":
            found += reading.project(entry, where())
        elif entry.form == "environment":
            found += reading.environment(entry.file, where())
        else:
            found += reading.lines(entry.file, where())
        files |= {entry.file, *reading.seen}
    return found, files


def parsed_lines(text: str) -> Any:
    """A requirements file as pip's own code reads it, without the files that it names. Raises ValueError."""
    from pip_requirements_parser import RequirementsFile as Parser

    # Its patterns take quadratic time, and nothing can interrupt one. A line with 400 checksums has 31 000 characters.
    if any(len(line) > _LONGEST for line in text.replace("\\\n", "").splitlines()):
        raise ValueError(f"a line has more than {_LONGEST} characters")
    with NamedTemporaryFile("w", suffix=".txt", encoding="utf-8", errors="replace") as copy:
        copy.write(text)
        copy.flush()
        return Parser.from_file(copy.name, include_nested=False)


class _Reading:
    """Reads the files of one entry, none twice, all of them beneath the recipe's folder."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.seen: set[str] = set()
        self.indexes = {index.rstrip("/") for index in target.variant.wheel_indexes}

    def lines(self, name: str, named_by: str) -> Iterator[Required]:
        if name in self.seen:
            return
        self.seen.add(name)
        if len(self.seen) > _FILES:
            raise UsageError(f"more than {_FILES} requirements files", named_by)
        path = self._path(name)
        text = beside.text(self.target, name, named_by)
        yield from self._stated(_parsed(text, path), name, lambda line: f"{path}:{line}")

    def environment(self, name: str, where: str) -> Iterator[Required]:
        path = self._path(name)
        for text, line in pip_requirements(beside.text(self.target, name, where), path):
            at = f"{path}:{line}"
            yield from self._stated(_parsed(text, at), name, partial(_always, at))

    def _path(self, name: str) -> str:
        return str(self.target.path.parent / name)

    def _stated(self, parsed: Any, name: str, at: Callable[[int], str]) -> Iterator[Required]:
        for invalid in parsed.invalid_lines:
            line = invalid.requirement_line
            if line.line.strip():
                raise _refused(f"{line.line.strip()[:100]!r} is not a requirement", at(line.line_number))
        for option in parsed.options:
            for kind, value in option.options.items():
                values = value if isinstance(value, list) else [value]
                yield from self._option(name, kind, [str(v) for v in values], at(option.line_number))
        for one in parsed.requirements:
            yield _one(one, at(one.line_number))

    def _option(self, name: str, kind: str, values: list[str], where: str) -> Iterator[Required]:
        if kind == "requirements":
            for value in values:
                yield from self.lines(posixpath.normpath(posixpath.join(posixpath.dirname(name), value)), where)
        elif kind in _INDEXES:
            for value in values:
                if value.rstrip("/") not in self.indexes:
                    raise UsageError(
                        f"a requirements file adds no index of its own: {redact(value)[:200]}",
                        where,
                        "if you trust it, write it under `wheel_indexes` of the variant too",
                    )
        elif kind not in _ALREADY_SO:
            option = kind.replace("_", "-").removesuffix("s") if kind == "constraints" else kind.replace("_", "-")
            raise _refused(f"the option --{option} is not supported", where)

    def project(self, entry: RequirementsFile, where: str) -> Iterator[Required]:
        path = self._path(entry.file)
        stated = project_of(beside.text(self.target, entry.file, where), path)
        texts = list(stated.dependencies(entry.extras, path)) if stated.project or not entry.groups else []
        for group in entry.groups:
            texts += stated.group(group, path)
        for text in texts:
            yield Required(_checked(text, path), partial(str, path))


def _parsed(text: str, where: str) -> Any:
    try:
        return parsed_lines(text)
    except (ValueError, RecursionError) as error:
        raise _refused(f"cannot read the requirements: {error}", where) from None


def _always(where: str, line: int) -> str:
    return where


def _one(found: Any, where: str) -> Required:
    if found.is_editable or (found.link is not None and not found.link.url.startswith("git+")):
        raise _refused(f"{redact(found.requirement_line.line.strip())[:100]!r} is not a package of an index", where)
    if found.link is not None and not found.name:
        raise UsageError("a git address needs the project's name", where, "write NAME @ git+https://...")
    if found.global_options or found.install_options:
        raise _refused("options of single requirements are not supported", where)
    checksums = [str(text).partition(":") for text in found.hash_options]
    if other := next((kind for kind, _, _ in checksums if kind != "sha256"), None):
        raise UsageError(f"only sha256 checksums are compared, not {other[:20]}", where)
    text = str(found.req)
    if found.link is not None:
        extras = f"[{','.join(sorted(found.extras))}]" if found.extras else ""
        text = f"{found.name}{extras} @ {found.link.url}"
    if found.marker and ";" not in text:
        text += f" ; {found.marker}"
    return Required(_checked(text, where), partial(str, where), frozenset(value for _, _, value in checksums))


def _checked(text: str, where: str) -> str:
    try:
        return _ENTRY.validate_python(text)
    except ValidationError as error:
        raise UsageError(redact(first_fault(error)[1]), where) from None


def _refused(what: str, where: str) -> UsageError:
    return UsageError(
        what, where, "a line is NAME, NAME>=VERSION, NAME @ git+https://HOST/REPOSITORY@COMMIT, or -r FILE"
    )


class _Table(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)


class ProjectTable(_Table):
    """`[project]` of PEP 621."""

    name: str = ""
    version: str = ""
    dependencies: list[str] = []
    extras: dict[str, list[str]] = Field(default={}, alias="optional-dependencies")
    dynamic: list[str] = []


class BuildSystem(_Table):
    """`[build-system]` of PEP 518."""

    requires: list[str] = []


class Pyproject(_Table):
    """The standard tables of a pyproject.toml; `groups` are those of PEP 735."""

    project: ProjectTable | None = None
    groups: dict[str, list[str | dict[str, str]]] = Field(default={}, alias="dependency-groups")
    build_system: BuildSystem | None = Field(default=None, alias="build-system")

    def dependencies(self, extras: list[str], where: str) -> Iterator[str]:
        """What the project needs with these extras. Raises UsageError if it does not state it."""
        if self.project is None:
            hint = "name its `groups`, or write its requirements under `wheels`"
            raise UsageError("the file has no [project] table", where, hint)
        if set(self.project.dynamic) & {"dependencies", "optional-dependencies"}:
            hint = "name the file of requirements that it reads instead"
            raise UsageError("its dependencies are `dynamic`: they are known only after its code has run", where, hint)
        yield from self.project.dependencies
        known = {canonicalize_name(name): texts for name, texts in self.project.extras.items()}
        left, seen = list(extras), set()
        while left:
            extra = canonicalize_name(left.pop(0))
            if extra in seen:
                continue
            seen.add(extra)
            if extra not in known:
                raise UsageError(f"the project has no extra {extra!r}{nearest(extra, known)}", where)
            for text in known[extra]:
                if canonicalize_name(text.partition("[")[0]) == self.own_name:
                    left += Requirement(_checked(text, where)).extras
                else:
                    yield text

    @property
    def own_name(self) -> str:
        return canonicalize_name(self.project.name) if self.project else ""

    def group(self, name: str, where: str) -> list[str]:
        """The requirements of a dependency group and of those that it includes, each group once. Raises UsageError."""
        known: Mapping[str, list[str | dict[str, str]]] = {canonicalize_name(n): g for n, g in self.groups.items()}
        found: list[str] = []
        done: set[str] = set()

        def add(name: str, path: tuple[str, ...]) -> None:
            here = canonicalize_name(name)
            if here in path:
                raise UsageError(f"the dependency group {here!r} includes itself", where)
            if len(path) > _DEEPEST:
                raise UsageError("the dependency groups are nested too deeply", where)
            if here not in known:
                raise UsageError(f"there is no dependency group {here!r}{nearest(here, known)}", where)
            if here in done:
                return
            for member in known[here]:
                if isinstance(member, str):
                    found.append(member)
                else:
                    add(_included(member, where), (*path, here))
            done.add(here)

        add(name, ())
        return found


def _included(member: dict[str, str], where: str) -> str:
    if set(member) != {"include-group"}:
        raise UsageError(f"a dependency group has a member of an unknown form: {str(member)[:100]}", where)
    return member["include-group"]


def project_of(text: str, where: str) -> Pyproject:
    """The standard tables of a pyproject.toml. Raises UsageError if it is not valid."""
    from reprokit.untrusted import toml

    try:
        return Pyproject.model_validate(toml.loads(text))
    except ValidationError as error:
        raise UsageError(": ".join(filter(None, first_fault(error))), where) from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"not valid TOML: {str(error)[:200]}", where) from None
