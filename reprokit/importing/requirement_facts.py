"""Small questions about requirements and moments that the resolution asks."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from reprokit.importing.decision import Decision
from reprokit.importing.merge import is_for, marker_environment
from reprokit.importing.model import SourceFile
from reprokit.importing.reading import ReaderProcess
from reprokit.importing.requirement_lines import valid_requirement

# After every upload.
ANY_TIME = "9999-01-01T00:00:00Z"


class SetupPy(NamedTuple):
    """What the setup.py of an sdist says of its build."""

    requires: tuple[str, ...]  # what it asks setuptools to fetch while it runs, which no image can
    libraries: list[str]  # the headers, programs and libraries that it looks for before it compiles


def setup_py(text: str, reader: ReaderProcess) -> SetupPy:
    """What a stranger's setup.py says; nothing if it cannot be read within the limits of a repository's file."""
    if not text:
        return SetupPy((), [])
    stated = reader.statements(SourceFile("setup.py", text, "setup.py"))
    requires = (s.value for s in stated if s.subject == "package" and s.scope == "build")
    return SetupPy(tuple(requires), [s.value for s in stated if s.subject == "library"])


def bare(requirement: Requirement) -> Requirement:
    """The requirement without its marker, which was evaluated."""
    bare = Requirement(str(requirement))
    bare.marker = None
    return bare


def with_extras(requirement: Requirement) -> str:
    return requirement.name + (f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else "")


def exact(specifier: SpecifierSet) -> Version | None:
    """The version of `==1.2`, or the first of `==1.2.*`."""
    for part in specifier:
        if part.operator in ("==", "==="):
            return Version(part.version.removesuffix(".*")) if is_version(part.version.removesuffix(".*")) else None
    return None


def names_prerelease(specifier: SpecifierSet) -> bool:
    return any(is_version(p.version) and Version(p.version).is_prerelease for p in specifier)


def is_version(text: str) -> bool:
    try:
        Version(text)
    except InvalidVersion:
        return False
    return True


def holds(text: str, decision: Decision) -> bool:
    """Whether a requirement is one, and is for this Python."""
    requirement = valid_requirement(text)
    return requirement is not None and is_for(requirement, marker_environment(decision.base))


def just_after(uploaded: str) -> str:
    """Some hours after an upload, so that the other files of a release count too."""
    moment = datetime.fromisoformat(uploaded.replace("Z", "+00:00")) + timedelta(hours=6)
    return moment.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
