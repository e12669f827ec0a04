"""Lines of requirements files, parsed by pip's own code for them."""

from __future__ import annotations

from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidSdistFilename, InvalidWheelFilename, parse_sdist_filename, parse_wheel_filename
from pip_requirements_parser import InstallRequirement

from reprokit.importing.model import Scope, SourceFile, Statement, Statements
from reprokit.recipe.requirements import parsed_lines

_LINES = 5000  # without checksums
_FORGES = ("github.com", "gitlab.com", "bitbucket.org")


def requirement_statements(
    file: SourceFile, one_line: bool = False, scope: Scope | None = None, constraints: bool = False
) -> Statements:
    """The statements of a requirements file. With `one_line` all of it stands in the first line of the part."""
    # The checksums of a locked file are most of its lines, and nothing is read from them.
    lines = ["" if line.lstrip().startswith("--hash=") else line for line in file.text.splitlines()]
    numbers = [number for number, line in enumerate(lines) if line.strip()]
    if len(numbers) > _LINES:
        yield file.states("unread", f"what follows after {_LINES} lines", numbers[_LINES] + 1, scope)
        lines = lines[: numbers[_LINES]]
    parsed = parsed_lines("\n".join(lines))
    for option in parsed.options:
        line = 1 if one_line else option.line_number
        for name, value in option.options.items():
            values = value if isinstance(value, list) else [value]
            for text in map(str, values):
                if name in ("requirements", "constraints"):
                    path = str(PurePosixPath(file.folder, text)) if not one_line else text
                    kind = "-c" if name == "constraints" or constraints else "-r"
                    yield file.states("include", f"{kind} {path}", line, scope)
                elif name in ("find_links", "extra_index_urls", "index_url") and "://" in text:
                    yield file.states("index", text, line, scope)
    for requirement in parsed.requirements:
        line = 1 if one_line else requirement.line_number
        yield from _one(file, requirement, line, scope, constraints)
    for invalid in parsed.invalid_lines:
        text = invalid.requirement_line.line.strip()
        if text and not text.startswith((".", "/", "-", "$", "file:")) and "*" not in text:  # paths
            line = 1 if one_line else invalid.requirement_line.line_number
            yield file.states("unread", f"not a requirement: {text[:100]}", line, scope)


def _one(file: SourceFile, found: InstallRequirement, line: int, scope: Scope | None, constraints: bool) -> Statements:
    subject = "constraint" if constraints else "package"
    if found.link is None:
        if found.req is not None:
            text = str(found.req) + (f"; {found.marker}" if found.marker and ";" not in str(found.req) else "")
            yield file.states(subject, text, line, scope)  # type: ignore[arg-type]
        return
    yield from address_statements(file, str(found.link.url), line, scope, found.name or "")


def address_statements(file: SourceFile, url: str, line: int, scope: Scope | None, name: str = "") -> Statements:
    """The statement of a requirement that is an address: a wheel or sdist by its name, otherwise a source."""
    scheme, _, address = url.partition("+")
    if scheme == "git":
        address = address.partition("#")[0].replace("ssh://git@", "https://").replace("git://", "https://")
        place, at, commit = address.rpartition("@")
        if not at or "://" not in place:
            place, commit = address, ""
        if place.startswith("https://"):
            yield _source(file, place.removesuffix(".git"), commit, line, scope, name)
        return
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https"):
        return
    basename = unquote(parts.path.rpartition("/")[2])
    try:
        if basename.endswith(".whl"):
            project, version, *_ = parse_wheel_filename(basename)
        else:
            project, version = parse_sdist_filename(basename)
        if parts.hostname not in _FORGES:
            yield file.states("package", f"{project}=={version}", line, scope)
            return
    except (InvalidWheelFilename, InvalidSdistFilename):
        pass
    if parts.hostname in _FORGES:
        owner = "/".join(parts.path.split("/")[1:3])
        yield _source(file, f"https://{parts.hostname}/{owner}", basename.removesuffix(".zip"), line, scope, name)
    else:
        yield file.states("unread", f"an address that is not a wheel or sdist: {url[:200]}", line, scope)


def _source(file: SourceFile, place: str, commit: str, line: int, scope: Scope | None, name: str) -> Statement:
    return file.states("source", f"{place}@{commit}" if commit else place, line, scope, name)


def valid_requirement(text: str) -> Requirement | None:
    """The requirement of PEP 508, None for a text that is none."""
    try:
        return Requirement(text)
    except InvalidRequirement:
        return None
