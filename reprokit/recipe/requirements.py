"""Requirements of Python and conda packages in files beside a recipe, which are only parsed.

The files are pip's requirements files, conda's `environment.yml` and `pyproject.toml`. `reprokit.importing` reads those
of repositories by the same functions, but accepts more.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from reprokit.errors import UsageError
from reprokit.recipe import fields as f
from reprokit.recipe import yaml
from reprokit.recipe.model import EnvironmentFile, RequirementsFile
from reprokit.recipe.spelling import nearest
from reprokit.redact import redact
from reprokit.untrusted.documents import first_fault
from reprokit.untrusted.time_limit import processor_time

if TYPE_CHECKING:
    from reprokit.recipe.find import Target

_FILES = 50
_DEEPEST = 50
_LONGEST = 32_000
_SECONDS = 3.0
_INDEXES = ("index_url", "extra_index_urls", "find_links")
# Options that change nothing: every file is locked by checksum, and wheels always come first.
_ALREADY_SO = ("require_hashes", "prefer_binary")
_ENTRY = TypeAdapter[str](f.WheelRequirement)
_SPEC = TypeAdapter[str](f.CondaSpec)
_KEYS = ("name", "prefix", "channels", "dependencies")  # of an environment.yml
# The channels of conda's `defaults` on Linux.
_DEFAULTS = ("main", "r")


@dataclass(frozen=True)
class Required:
    """One requirement. `where` is its FILE:LINE, or its path below the variant.

    `sha256` are the checksums that its file allows, if it states any.
    """

    text: str
    where: str | yaml.Path
    sha256: frozenset[str] = frozenset()


def required_wheels(target: Target) -> list[Required]:
    """The requirements of a variant's `wheels`, in order. Raises UsageError naming file and line."""
    required: list[Required] = []
    reader = _FileReader(target)
    # pip's parser and TOML with long keys take quadratic time.
    with processor_time(_SECONDS, f"a file of the requirements of {target.label}", str(target.path)):
        for index, entry in enumerate(target.variant.wheels):
            if isinstance(entry, str):
                required.append(Required(entry, ("wheels", index)))
            else:
                required += reader.of(entry, target.where(("wheels", index)))
    return required


def conda_specifications(target: Target) -> list[str]:
    """The variant's `conda`, with files replaced by their specifications. Raises UsageError."""
    specs: list[str] = []
    for entry in target.variant.conda:
        if isinstance(entry, EnvironmentFile):
            specs += _specifications(target, entry.file)
        else:
            specs.append(entry)
    return specs


def environments(target: Target) -> dict[str, yaml.Document]:
    """The environment.yml files of a variant by name, checked to have only channels, specifications and pip's list.

    Raises UsageError.
    """
    variant = target.variant
    named: dict[str, yaml.Path] = {}
    for index, wheels in enumerate(variant.wheels):
        if isinstance(wheels, RequirementsFile) and wheels.form == "environment":
            named.setdefault(wheels.file, ("wheels", index))
    for index, conda in enumerate(variant.conda):
        if isinstance(conda, EnvironmentFile):
            named.setdefault(conda.file, ("conda", index))
    return {name: _environment(target, name, target.where(path)) for name, path in named.items()}


def parsed_lines(text: str) -> Any:
    """A requirements file as pip's own code reads it, without the files that it names. Raises ValueError."""
    from pip_requirements_parser import RequirementsFile as Parser

    # The parser takes quadratic time and cannot be interrupted. A line with 400 checksums has 31 000 characters.
    if any(len(line) > _LONGEST for line in text.replace("\\\n", "").splitlines()):
        raise ValueError(f"a line has more than {_LONGEST} characters")
    with NamedTemporaryFile("w", suffix=".txt", encoding="utf-8", errors="replace") as copy:
        copy.write(text)
        copy.flush()
        return Parser.from_file(copy.name, include_nested=False)


def environment_entries(document: yaml.Document) -> Iterator[tuple[Any, int, bool]]:
    """Each entry of an environment.yml's `dependencies`, its line, and whether it is from pip's list.

    Invalid entries are yielded unchanged.
    """
    listed = document.data.get("dependencies") if isinstance(document.data, dict) else None
    for index, entry in enumerate(listed if isinstance(listed, list) else []):
        path = ("dependencies", index)
        lines = entry.get("pip") if isinstance(entry, dict) else None
        if isinstance(lines, list):
            yield from ((text, document.line((*path, "pip", n)), True) for n, text in enumerate(lines))
        if not isinstance(lines, list) or len(entry) > 1:
            yield entry, document.line(path), False


class _FileReader:
    """Reads the files of `wheels` below the recipe's folder, each once."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.seen: set[str] = set()
        self.projects: dict[str, Pyproject] = {}
        self.indexes = {index.rstrip("/") for index in target.variant.wheel_indexes}

    def of(self, entry: RequirementsFile, where: str) -> Iterator[Required]:
        """The requirements of a file, which `where` names."""
        path = _path(self.target, entry.file)
        if entry.form == "project":
            yield from self.project(entry, path, where)
        elif entry.form == "environment":
            for text, line, of_pip in environment_entries(self.target.environments[entry.file]):
                if of_pip:
                    yield from self.stated(str(text), entry.file, f"{path}:{line}")
        else:
            yield from self.lines(entry.file, where)

    def lines(self, name: str, named_by: str) -> Iterator[Required]:
        if name in self.seen:
            return
        self.seen.add(name)
        if len(self.seen) > _FILES:
            raise UsageError(f"more than {_FILES} requirements files", named_by)
        yield from self.stated(self.target.text(name, named_by), name)

    def stated(self, text: str, name: str, where: str = "") -> Iterator[Required]:
        """The requirements in `text`, which is from the file `name`; `where` overrides their FILE:LINE."""
        path = _path(self.target, name)
        try:
            parsed = parsed_lines(text)
        except (ValueError, RecursionError) as error:
            raise _refused(f"cannot read the requirements: {error}", where or path) from None
        for invalid in parsed.invalid_lines:
            line = invalid.requirement_line
            if line.line.strip():
                raise _refused(
                    f"{line.line.strip()[:100]!r} is not a requirement", where or f"{path}:{line.line_number}"
                )
        for option in parsed.options:
            for kind, value in option.options.items():
                values = value if isinstance(value, list) else [value]
                yield from self.option(name, kind, [str(v) for v in values], where or f"{path}:{option.line_number}")
        for requirement in parsed.requirements:
            yield _required(requirement, where or f"{path}:{requirement.line_number}")

    def option(self, name: str, kind: str, values: list[str], where: str) -> Iterator[Required]:
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

    def project(self, entry: RequirementsFile, path: str, where: str) -> Iterator[Required]:
        if entry.file not in self.projects:
            self.projects[entry.file] = project_of(self.target.text(entry.file, where), path)
        project = self.projects[entry.file]
        texts = list(project.dependencies(entry.extras, path)) if project.project or not entry.groups else []
        for group in entry.groups:
            texts += project.group(group, path)
        for text in texts:
            yield Required(_checked(text, path), path)


def _path(target: Target, name: str) -> str:
    return str(target.path.parent / name)


def _required(requirement: Any, where: str) -> Required:
    link = requirement.link
    if requirement.is_editable or (link is not None and not link.url.startswith("git+")):
        line = redact(requirement.requirement_line.line.strip())
        raise _refused(f"{line[:100]!r} is not a package of an index", where)
    if link is not None and not requirement.name:
        raise UsageError("a git address needs the project's name", where, "write NAME @ git+https://...")
    if requirement.global_options or requirement.install_options:
        raise _refused("options of single requirements are not supported", where)
    checksums = [str(text).partition(":") for text in requirement.hash_options]
    if other := next((kind for kind, _, _ in checksums if kind != "sha256"), None):
        raise UsageError(f"only sha256 checksums are compared, not {other[:20]}", where)
    text = str(requirement.req)
    if link is not None:
        extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
        text = f"{requirement.name}{extras} @ {link.url}"
    if requirement.marker and ";" not in text:
        text += f" ; {requirement.marker}"
    return Required(_checked(text, where), where, frozenset(value for _, _, value in checksums))


def _checked(text: str, where: str) -> str:
    try:
        return _ENTRY.validate_python(text)
    except ValidationError as error:
        raise UsageError(redact(first_fault(error)[1]), where) from None


def _refused(what: str, where: str) -> UsageError:
    return UsageError(
        what, where, "a line is NAME, NAME>=VERSION, NAME @ git+https://HOST/REPOSITORY@COMMIT, or -r FILE"
    )


def _environment(target: Target, name: str, where: str) -> yaml.Document:
    document = yaml.read(target.text(name, where), _path(target, name))
    data = document.data
    if not isinstance(data, dict) or not isinstance(data.get("dependencies"), list):
        raise UsageError("the file has no list `dependencies`", document.where)
    if unknown := next((key for key in data if key not in _KEYS), None):
        at = f"{document.where}:{document.line((unknown,))}"
        raise UsageError(f"`{unknown[:60]}` of an environment.yml is not supported", at, "write it into the recipe")
    for entry, line, of_pip in environment_entries(document):
        if not of_pip and not isinstance(entry, str):
            at = f"{document.where}:{line}"
            raise UsageError(f"{str(entry)[:60]!r} is not a specification", at, "write NAME=VERSION")
    return document


def _specifications(target: Target, name: str) -> Iterator[str]:
    document = target.environments[name]
    listed = document.data.get("channels", [])
    for channel in listed if isinstance(listed, list) else [listed]:
        names = _DEFAULTS if channel == "defaults" else () if channel == "nodefaults" else (str(channel),)
        if unnamed := [name for name in names if name not in target.variant.conda_channels]:
            at = f"{document.where}:{document.line(('channels',))}"
            hint = f"if you trust it, write `conda_channels: [..., {unnamed[0]}]`; the order is the recipe's"
            raise UsageError(f"an environment.yml adds no channel of its own: {unnamed[0][:100]}", at, hint)
    pip_installed = any(isinstance(other, RequirementsFile) and other.file == name for other in target.variant.wheels)
    for entry, line, of_pip in environment_entries(document):
        at = f"{document.where}:{line}"
        if of_pip and not pip_installed:
            raise UsageError("no block installs its `pip:`", at, f"write `wheels: [{{file: {name}}}]` too")
        if not of_pip and entry != "pip":
            yield _specification(entry, at)


def _specification(text: str, where: str) -> str:
    name, _, version = text.strip().lower().partition(" ")
    try:
        return _SPEC.validate_python(name + ("=" if version[:1].isdigit() else "") + version.replace(" ", ""))
    except ValidationError:
        hint = "write NAME=VERSION or a range; a channel is named in `conda_channels`"
        raise UsageError(f"{text[:100]!r} is not a specification of conda", where, hint) from None


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
        """The requirements of the project with these extras. Raises UsageError if the file does not state them."""
        if self.project is None:
            hint = "name its `groups`, or write its requirements under `wheels`"
            raise UsageError("the file has no [project] table", where, hint)
        if set(self.project.dynamic) & {"dependencies", "optional-dependencies"}:
            hint = "name the file of requirements that it reads instead"
            raise UsageError("its dependencies are `dynamic`: they are known only after its code has run", where, hint)
        yield from self.project.dependencies
        declared = {canonicalize_name(name): texts for name, texts in self.project.extras.items()}
        left, seen = list(extras), set()
        while left:
            extra = canonicalize_name(left.pop(0))
            if extra in seen:
                continue
            seen.add(extra)
            if extra not in declared:
                raise UsageError(f"the project has no extra {extra!r}{nearest(extra, declared)}", where)
            for text in declared[extra]:
                if canonicalize_name(text.partition("[")[0]) == self.own_name:
                    left += Requirement(_checked(text, where)).extras
                else:
                    yield text

    @property
    def own_name(self) -> str:
        return canonicalize_name(self.project.name) if self.project else ""

    def group(self, name: str, where: str) -> list[str]:
        """The requirements of a dependency group and of those that it includes, each group once. Raises UsageError."""
        groups: Mapping[str, list[str | dict[str, str]]] = {canonicalize_name(n): g for n, g in self.groups.items()}
        requirements: list[str] = []
        done: set[str] = set()

        def add(name: str, path: tuple[str, ...]) -> None:
            group = canonicalize_name(name)
            if group in path:
                raise UsageError(f"the dependency group {group!r} includes itself", where)
            if len(path) > _DEEPEST:
                raise UsageError("the dependency groups are nested too deeply", where)
            if group not in groups:
                raise UsageError(f"there is no dependency group {group!r}{nearest(group, groups)}", where)
            if group in done:
                return
            for member in groups[group]:
                if isinstance(member, str):
                    requirements.append(member)
                else:
                    add(_included(member, where), (*path, group))
            done.add(group)

        add(name, ())
        return requirements


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
