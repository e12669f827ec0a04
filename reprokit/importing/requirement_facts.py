"""Small questions about requirements and moments that the resolution asks."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from reprokit.importing.decision import Decision
from reprokit.importing.merge import marker_environment
from reprokit.importing.model import SourceFile, Statement
from reprokit.importing.readers import setup_py

# After every upload.
ANY_TIME = "9999-01-01T00:00:00Z"


def setup_requires(text: str) -> list[str]:
    """What a setup.py asks setuptools to fetch while it runs, which no image can."""
    return [s.value for s in _stated(text) if s.subject == "package" and s.scope == "build"]


def libraries(text: str) -> list[str]:
    """The headers, programs and libraries that a setup.py looks for before it compiles."""
    return [s.value for s in _stated(text) if s.subject == "library"]


def _stated(text: str) -> list[Statement]:
    try:
        return list(setup_py.read(SourceFile("setup.py", text, "setup.py")))
    except ValueError:  # not Python 3
        return []


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
    requirement = Requirement(text)
    return requirement.marker is None or requirement.marker.evaluate(marker_environment(decision.base))


def just_after(uploaded: str) -> str:
    """Some hours after an upload, so that the other files of a release count too."""
    moment = datetime.fromisoformat(uploaded.replace("Z", "+00:00")) + timedelta(hours=6)
    return moment.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
