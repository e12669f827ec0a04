"""The files of a project in an index, with upload times; and the metadata of sdists, which are never built."""

from __future__ import annotations

import io
import tarfile
import zlib
from collections.abc import Container, Iterable, Iterator, Sequence
from email.parser import HeaderParser
from typing import TYPE_CHECKING
from urllib.parse import urljoin

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name, parse_sdist_filename
from packaging.version import Version
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from reprokit.errors import SourceError
from reprokit.recipe.requirements import project_of
from reprokit.redact import redact
from reprokit.supply.fetch.http import Client, Refusal
from reprokit.supply.kinds.wheels.index import ACCEPT, PAGE
from reprokit.supply.kinds.wheels.platform import Platform, WheelRequest, parsed_wheel, supported
from reprokit.supply.kinds.wheels.uv import Unreachable
from reprokit.untrusted.documents import parsed
from reprokit.untrusted.limits import Limit
from reprokit.untrusted.tar import Stream, members

if TYPE_CHECKING:
    from reprokit.supply.mirrors import Mirrors

_SDIST = Limit("SDIST", 64 << 20)
_METADATA = 1 << 20
_COMPILED = (".c", ".cc", ".cpp", ".cxx", ".cu", ".pyx", ".f", ".f90", ".rs", "/CMakeLists.txt", "/meson.build")
_METADATA_FILES = ("/PKG-INFO", ".egg-info/requires.txt", "/pyproject.toml", "/setup.py")


class ListedFile(BaseModel):
    """One file of a project (PEP 691, PEP 700). `uploaded` is empty if the index lists no time."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    filename: str
    url: str
    uploaded: str = Field(default="", alias="upload-time")
    requires_python: str | None = Field(default=None, alias="requires-python")
    yanked: bool | str = False

    @property
    def version(self) -> Version | None:
        """The release of a wheel or sdist; None for other files."""
        if self.is_wheel:
            wheel = parsed_wheel(self.filename)
            return wheel[1] if wheel else None
        try:
            return parse_sdist_filename(self.filename)[1] if self.filename.endswith(".tar.gz") else None
        except ValueError:  # besides InvalidSdistFilename: a number of more digits than Python reads
            return None

    @property
    def is_wheel(self) -> bool:
        return self.filename.endswith(".whl")

    def fits(self, platform: Platform) -> bool:
        """Whether a Python of the platform can use it; an sdist always can, unless its Python is excluded."""
        try:
            if self.requires_python and not SpecifierSet(self.requires_python).contains(f"{platform.python}.2"):
                return False
        except ValueError:
            pass
        if not self.is_wheel:
            return True
        wheel = parsed_wheel(self.filename)
        return bool(wheel and wheel[3] & supported(platform).keys())


class Listing:
    """Asks the user's first index for the files of projects; each project once."""

    def __init__(self, mirrors: Mirrors) -> None:
        self._mirrors = mirrors
        self._files: dict[str, list[ListedFile]] = {}
        self._sdists: dict[str, bytes] = {}

    def files(self, project: str) -> list[ListedFile]:
        """The files of releases that are not yanked. Empty if the index has no such project, or lists no JSON."""
        name = canonicalize_name(project)
        if name not in self._files:
            self._files[name] = list(self._ask(name))
        return self._files[name]

    def _ask(self, name: str) -> Iterator[ListedFile]:
        index = self._mirrors.pip.index
        if not index.startswith(("http://", "https://")):
            return
        try:
            page = f"{index.rstrip('/')}/{name}/"
            body, kind = self._get(page, PAGE)
            listed = parsed(body)["files"] if "json" in kind else []
            for entry in listed:
                file = ListedFile.model_validate({**entry, "url": urljoin(page, entry["url"])})
                if not file.yanked and file.version is not None:
                    yield file
        except (ValueError, LookupError, TypeError, ValidationError):
            return

    def requires(self, file: ListedFile) -> list[str] | None:
        """The runtime requirements in an sdist's metadata; None if it states none.

        Raises SourceError if it cannot be read.
        """
        return sdist_requires(self.content(file), file.filename)

    def build_requires(self, file: ListedFile) -> list[str]:
        """The build requirements of an sdist (PEP 518). Raises SourceError if it cannot be read."""
        return sdist_build_requires(self.content(file), file.filename)

    def setup_py(self, file: ListedFile) -> str:
        """The setup.py of an sdist; empty without one. Raises SourceError if it cannot be read."""
        return _top_file(self.content(file), file.filename, "setup.py")

    def is_pure(self, file: ListedFile) -> bool:
        """Whether an sdist has nothing to compile. Raises SourceError if it cannot be read."""
        content = self.content(file)
        try:
            stream = Stream(_unpacked(content, file.filename))
            return not any(member.name.endswith(_COMPILED) for member in members(stream, file.filename))
        except (tarfile.TarError, zlib.error, EOFError) as error:
            raise SourceError(f"the sdist is damaged: {error}", file.filename) from None

    def content(self, file: ListedFile) -> bytes:
        """The bytes of an sdist. Raises SourceError if it cannot be downloaded."""
        if file.url not in self._sdists:
            self._sdists[file.url] = self._get(file.url, _SDIST)[0]
        return self._sdists[file.url]

    def _get(self, url: str, limit: Limit) -> tuple[bytes, str]:
        try:
            with Client(self._mirrors.settings) as client:
                return client.read(url, {"Accept": ACCEPT}, limit, "bytes of an index")
        except Refusal as refusal:
            if refusal.status == 404:
                return b"", ""
            raise SourceError(f"the index does not answer: {refusal.why}", url) from None


def sdist_for(
    named: Sequence[str], request: WheelRequest, listing: Listing, chosen: Container[str]
) -> ListedFile | None:
    """The newest sdist of the first named project that has no usable wheel; `named` are NAME or NAME==VERSION."""
    stated = [Requirement(text) for text in request.requirements]
    for text in filter(None, named):
        try:
            requirement_named = Requirement(text)
        except InvalidRequirement:
            continue
        project = canonicalize_name(requirement_named.name)
        if project in chosen:
            continue
        specifier = requirement_named.specifier
        for requirement in stated:
            if canonicalize_name(requirement.name) == project and not requirement.url:
                specifier &= requirement.specifier
        files = [
            (version, file)
            for file in listing.files(project)
            if file.fits(request.platform) and (version := file.version) and specifier.contains(version)
        ]
        if files and not any(file.is_wheel for _, file in files):
            return max(files, key=lambda pair: pair[0])[1]
    return None


def reached(mirrors: Mirrors, project: str) -> None:
    """Raises Unreachable if the user's first index does not answer."""
    try:
        Listing(mirrors).files(project)
    except SourceError as error:
        raise Unreachable(error.message, redact(mirrors.pip.index), "`pip config list` shows the indexes") from None


def sdist_requires(content: bytes, name: str) -> list[str] | None:
    """`Requires-Dist` of an sdist's PKG-INFO, or setuptools' `requires.txt` beside it; None without either."""
    info, egg = "", None
    try:
        for path, text in _metadata_of(content, name):
            if path.count("/") == 1 and path.endswith("/PKG-INFO"):
                info = text
            elif path.endswith(".egg-info/requires.txt"):
                egg = text
    except (tarfile.TarError, zlib.error, EOFError) as error:
        raise SourceError(f"the sdist is damaged: {error}", name) from None
    stated = HeaderParser().parsestr(info).get_all("Requires-Dist") or []
    if stated:
        return [text for text in stated if _is_run_time(text)]
    if egg is not None:
        return list(_of_egg(egg))
    return [] if info else None


def sdist_build_requires(content: bytes, name: str) -> list[str]:
    """The build requirements in an sdist's pyproject.toml."""
    return build_requires(_top_file(content, name, "pyproject.toml"), name)


def _top_file(content: bytes, name: str, file: str) -> str:
    try:
        texts = (text for path, text in _metadata_of(content, name) if path.partition("/")[2] == file)
        return next(texts, "")
    except (tarfile.TarError, zlib.error, EOFError) as error:
        raise SourceError(f"the sdist is damaged: {error}", name) from None


def build_requires(pyproject: str, where: str) -> list[str]:
    """The build requirements that a pyproject.toml states. Raises UsageError if it is not valid."""
    table = project_of(pyproject, where).build_system
    # The default of PEP 518. Old versions of setuptools ask for wheel when they run.
    stated = table.requires if table else ["setuptools>=40.8.0"]
    return [*index_requirements(stated, where), "wheel"]


def index_requirements(texts: Iterable[str], where: str) -> list[str]:
    """Requirements of a stranger's metadata in normal form. Raises SourceError for one that no index can meet."""
    requirements = []
    for text in texts:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            raise SourceError(f"{text[:100]!r} is not a requirement", where) from None
        if requirement.url:
            raise SourceError(f"it requires an address: {redact(text)[:100]!r}", where)
        requirements.append(str(requirement))
    return requirements


def _metadata_of(content: bytes, name: str) -> Iterator[tuple[str, str]]:
    stream = Stream(_unpacked(content, name))
    for member in members(stream, name):
        if member.isreg() and member.name.endswith(_METADATA_FILES) and member.size < _METADATA:
            yield member.name, stream.read(member.size).decode("utf-8", "replace")


def _unpacked(content: bytes, name: str) -> Iterator[bytes]:
    from reprokit.untrusted.limits import check_unpacked

    unpack, total, source = zlib.decompressobj(31), 0, io.BytesIO(content)
    while block := source.read(1 << 16):
        piece = unpack.decompress(block)
        total += len(piece)
        check_unpacked(total, len(content), name)
        yield piece


def _is_run_time(text: str) -> bool:
    try:
        requirement = Requirement(text)
    except InvalidRequirement:
        return False
    return not requirement.url and "extra ==" not in str(requirement.marker or "")


def _of_egg(text: str) -> Iterator[str]:
    """The lines before the first section, and those of sections that are only a marker (`[:python_version<"3"]`)."""
    marker: str | None = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            marker = line[2:-1] if line.startswith("[:") else None
        elif line and marker is not None and _is_run_time(line):
            yield f"{line}; {marker}" if marker else line
