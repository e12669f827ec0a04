"""Projects at a commit of a git repository. Their metadata is read from the commit, and none of their code runs."""

from __future__ import annotations

import configparser
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from reprokit.display import notify
from reprokit.errors import SourceError, UsageError
from reprokit.recipe.fields import GitRequirement, git_requirement
from reprokit.recipe.requirements import project_of
from reprokit.supply.kinds.git.command import GitFailed, git
from reprokit.supply.kinds.git.fetch import ensure
from reprokit.supply.kinds.git.resolve import commit_of
from reprokit.supply.kinds.git.store import folder_of
from reprokit.supply.kinds.wheels.listing import build_requires, index_requirements
from reprokit.supply.kinds.wheels.platform import WheelRequest
from reprokit.supply.locked_input import Commit

if TYPE_CHECKING:
    from reprokit.supply.mirrors import Mirrors

_MOST = 1 << 20  # bytes of a project's file


@dataclass(frozen=True)
class ProjectMetadata:
    """What a project states without running: its dependencies by extra (the empty one for all), and for its build."""

    build: list[str]
    version: str = "0"
    requires: Mapping[str, list[str]] = field(default_factory=dict)


@contextmanager
def with_stubs(request: WheelRequest, mirrors: Mirrors) -> Iterator[tuple[WheelRequest, list[list[str]]]]:
    """The request with a wheel of metadata for each project of git, and the build requirements of each."""
    with TemporaryDirectory(prefix="reprokit-projects-") as folder:
        texts, builds = [], []
        for text in request.requirements:
            project = git_requirement(text)
            if project is None:
                texts.append(text)
                continue
            metadata = metadata_of(project, request.refs, mirrors)
            requirement = Requirement(text)
            requirement.url = _stub(Path(folder), project.project, metadata).as_uri()
            texts.append(str(requirement))
            builds.append(metadata.build)
        yield replace(request, requirements=texts), builds


def metadata_of(project: GitRequirement, refs: Mapping[tuple[str, str], str], mirrors: Mirrors) -> ProjectMetadata:
    """The metadata of a project at its commit, which is fetched. Raises SourceError, UsageError."""
    commit = Commit(project.git, commit_of(project, refs, mirrors))
    ensure([commit], mirrors)
    where = f"{commit.name}@{commit.commit[:12]}"
    below = f"{project.subdirectory.rstrip('/')}/" if project.subdirectory else ""
    text = _file(commit, f"{below}pyproject.toml", mirrors)
    build = build_requires(text, where)
    stated = project_of(text, where).project
    if stated and stated.name and canonicalize_name(stated.name) != canonicalize_name(project.project):
        raise UsageError(f"the project is called {stated.name[:100]!r}, not {project.project!r}", where)
    if stated and not set(stated.dynamic) & {"dependencies", "optional-dependencies"}:
        requires = {"": stated.dependencies, **stated.extras}
        version = stated.version or "0"
    else:
        requires = _setup_cfg(_file(commit, f"{below}setup.cfg", mirrors), where)
        version = "0"
        if not requires:
            notify(f"{project.project} does not state what it needs: write that under `wheels` too ({where})")
    listed = {canonicalize_name(extra) if extra else "": index_requirements(t, where) for extra, t in requires.items()}
    return ProjectMetadata(build, _valid(version), listed)


def _file(commit: Commit, path: str, mirrors: Mirrors) -> str:
    """The content of a file of the commit, empty if the commit has no such file."""
    folder, name = folder_of(commit, mirrors.store), f"{commit.commit}:{path}"
    try:
        size = int(git("cat-file", "-s", name, folder=folder))
        if size > _MOST:
            raise SourceError(f"{path} has more than {_MOST} bytes", commit.url)
        return git("cat-file", "blob", name, folder=folder)
    except GitFailed:
        return ""


def _setup_cfg(text: str, where: str) -> dict[str, list[str]]:
    """The requirements in setuptools' declarative settings; empty if there are none."""
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(text)
    except configparser.Error as error:
        raise SourceError(f"setup.cfg is not valid: {str(error)[:200]}", where) from None
    stated = {}
    if parser.has_option("options", "install_requires"):
        stated[""] = parser.get("options", "install_requires")
    if parser.has_section("options.extras_require"):
        stated |= dict(parser.items("options.extras_require"))
    if any("file:" in value for value in stated.values()):
        return {}
    return {extra: [line.strip() for line in value.splitlines() if line.strip()] for extra, value in stated.items()}


def _valid(version: str) -> str:
    try:
        return str(Version(version))
    except InvalidVersion:
        return "0"


def _stub(folder: Path, project: str, metadata: ProjectMetadata) -> Path:
    """A wheel of metadata alone, which the resolver takes for the project."""
    name = canonicalize_name(project).replace("-", "_")
    stem = f"{name}-{metadata.version}"
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {metadata.version}"]
    for extra, texts in metadata.requires.items():
        lines += [f"Provides-Extra: {extra}"] if extra else []
        for text in texts:
            lines.append(f"Requires-Dist: {_of_extra(text, extra)}")
    path = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{stem}.dist-info/METADATA", "\n".join(lines) + "\n")
        wheel.writestr(f"{stem}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{stem}.dist-info/RECORD", "")
    return path


def _of_extra(text: str, extra: str) -> str:
    if not extra:
        return text
    head, _, marker = text.partition(";")
    return f'{head.strip()}; extra == "{extra}"' + (f" and ({marker.strip()})" if marker else "")
