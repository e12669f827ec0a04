"""Lines of requirements files, parsed by pip's own code."""

from __future__ import annotations

import posixpath
import re
from urllib.parse import unquote, urlsplit

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidSdistFilename, InvalidWheelFilename, parse_sdist_filename, parse_wheel_filename
from pip_requirements_parser import InstallRequirement

from reprokit.compat.distributions import bundled_distributions
from reprokit.importing.model import Scope, SourceFile, Statement, Statements, Subject
from reprokit.recipe.requirements import parsed_lines

_LINES = 5000  # without checksums
_FORGES = ("github.com", "gitlab.com", "bitbucket.org")
# Files that run the code. The paths that they install are mostly parts of it.
_TRYING = ("readme", "notebook", "workflow", "tox", "makefile")
# PyPI's names of conda's packages.
_OF_CONDA = {"pytorch": "torch"}
# `>=1.*`: uv and older releases of pip read it as `>=1`.
_STAR = re.compile(r"([<>]=?\s*[0-9]+(?:\.[0-9]+)*)\.\*")


def requirement_statements(
    file: SourceFile, one_line: bool = False, scope: Scope | None = None, constraints: bool = False
) -> Statements:
    """The statements of a requirements file. With `one_line` all statements have the first line of the part."""
    # Checksums are most lines of a locked file; skip them.
    lines = ["" if line.lstrip().startswith("--hash=") else line for line in file.text.splitlines()]
    numbers = [number for number, line in enumerate(lines) if line.strip()]
    if len(numbers) > _LINES:
        yield file.states("unread", f"what follows after {_LINES} lines", numbers[_LINES] + 1, scope)
        lines = lines[: numbers[_LINES]]
    parsed = parsed_lines("\n".join(lines))
    subject: Subject = "constraint" if constraints else "package"
    for option in parsed.options:
        line = 1 if one_line else option.line_number
        for name, value in option.options.items():
            values = value if isinstance(value, list) else [value]
            for text in map(str, values):
                if name in ("requirements", "constraints"):
                    kind = "-c" if name == "constraints" or constraints else "-r"
                    yield file.states("include", f"{kind} {text}", line, scope)
                elif name in ("find_links", "extra_index_urls", "index_url") and "://" in text:
                    yield file.states("index", text, line, scope)
    for requirement in parsed.requirements:
        line = 1 if one_line else requirement.line_number
        yield from _stated(file, requirement, line, scope, subject)
    for invalid in parsed.invalid_lines:
        line = 1 if one_line else invalid.requirement_line.line_number
        text = invalid.requirement_line.line.strip()
        lenient = _STAR.sub(r"\1", text)
        if lenient != text and valid_requirement(lenient):
            yield file.states(subject, lenient, line, scope)
        elif text and (text.startswith(("-e", "--editable")) or not text.startswith("-")) and not _is_own(file, text):
            what = "what this installs" if text.startswith((".", "/", "file:")) else "not a requirement"
            yield file.states("unread", f"{what}: {text[:100]}", line, scope)


def _stated(
    file: SourceFile, parsed: InstallRequirement, line: int, scope: Scope | None, subject: Subject
) -> Statements:
    if parsed.link is None:
        if parsed.req is not None and parsed.name == "python":
            yield file.states("python", parsed.req.specifier, line, scope)
        elif parsed.req is not None:
            parsed.req.name = _OF_CONDA.get(parsed.req.name, parsed.req.name)
            text = str(parsed.req) + (f"; {parsed.marker}" if parsed.marker and ";" not in str(parsed.req) else "")
            yield file.states(subject, text, line, scope)
        return
    yield from address_statements(file, str(parsed.link.url), line, scope, parsed.name or "")


def address_statements(file: SourceFile, url: str, line: int, scope: Scope | None, name: str = "") -> Statements:
    """The statement of a requirement that is an address or a path: a wheel or sdist, otherwise a source.

    A wheel or sdist of a known project becomes that release. Others keep their address: a stranger may have registered
    the name on an index. Anything else is reported as unread.
    """
    scheme, _, address = url.partition("+")
    if scheme == "git":
        address = address.partition("#")[0].replace("ssh://git@", "https://").replace("git://", "https://")
        address = address.replace("http://", "https://")
        place, at, commit = address.rpartition("@")
        if not at or "://" not in place:
            place, commit = address, ""
        if place.startswith("https://"):
            yield _source(file, place.removesuffix(".git"), commit, line, scope)
            return
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https"):
        if parts.scheme in ("", "file") and _is_own(file, url):
            return
        if name:
            yield file.states("package", f"{name} @ {url}", line, scope)
        else:
            yield file.states("unread", f"what this installs: {url[:200]}", line, scope)
        return
    basename = unquote(parts.path.rpartition("/")[2])
    try:
        if basename.endswith(".whl"):
            project, version, *_ = parse_wheel_filename(basename)
        else:
            project, version = parse_sdist_filename(basename)
        if parts.hostname not in _FORGES:
            on_index = bundled_distributions().knows(project)
            yield file.states("package", f"{project}=={version}" if on_index else f"{project} @ {url}", line, scope)
            return
    except (InvalidWheelFilename, InvalidSdistFilename):
        pass
    if parts.hostname in _FORGES:
        owner = "/".join(parts.path.split("/")[1:3])
        yield _source(file, f"https://{parts.hostname}/{owner}", basename.removesuffix(".zip"), line, scope)
    elif name:
        yield file.states("package", f"{name} @ {url}", line, scope)
    else:
        yield file.states("unread", f"an address that is not a wheel or sdist: {url[:200]}", line, scope)


def _is_own(file: SourceFile, text: str) -> bool:
    """Whether a path needs no question: the repository itself, a result of its build, or a path of a test run."""
    path = text.removeprefix("file:").partition("#")[0].partition("[")[0]
    if file.format in _TRYING and ("/" in text or text.startswith((".", "$"))):
        return True
    paths = {posixpath.normpath(path), posixpath.normpath(posixpath.join(file.folder, path))}
    return "." in paths or path.startswith(("dist/", "./dist/"))


def _source(file: SourceFile, place: str, commit: str, line: int, scope: Scope | None) -> Statement:
    return file.states("source", f"{place}@{commit}" if commit else place, line, scope)


def valid_requirement(text: str) -> Requirement | None:
    """The PEP 508 requirement; None if the text is not valid."""
    try:
        return Requirement(text)
    except InvalidRequirement:
        return None
