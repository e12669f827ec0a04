"""Predicates on requirements, and the merging of several files' requirements into one per project."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from packaging.markers import UndefinedComparison, UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import Specifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from reprokit.importing.decision import Choice, Overruled, PythonBase, Question
from reprokit.importing.model import Origin, Statement

# Formats by the weight of their versions, the least first.
WEIGHTS = ("python", "notebook", "readme", "makefile", "script", "workflow", "tox", "devcontainer", "dockerfile",
           "environment", "requirements", "pipfile", "setup.py", "setup.cfg", "pyproject")  # fmt: skip
_MOST_STATED = 100  # of one project
_CI = ("workflow", "tox")  # they try several versions, also the oldest


@dataclass(frozen=True)
class Stated:
    """One requirement of a file, for one Python."""

    requirement: Requirement
    statement: Statement

    @property
    def weight(self) -> int:
        return WEIGHTS.index(self.statement.format) if self.statement.format in WEIGHTS else 0


def read(statements: Iterable[Statement], base: PythonBase) -> tuple[dict[str, list[Stated]], list[Question]]:
    """The requirements whose markers hold, by project, and questions about invalid ones."""
    environment = marker_environment(base)
    stated: dict[str, list[Stated]] = {}
    questions = []
    for statement in statements:
        try:
            requirement = Requirement(statement.value)
        except InvalidRequirement:
            questions.append(Question(f"{statement.value!r} is no requirement that pip reads", statement.origin))
            continue
        if requirement.url:  # it could name a file of this host
            text = f"{requirement.name} is installed from {requirement.url}, and left out: an index may have another"
            questions.append(Question(f"{text} project of that name", statement.origin))
        elif is_for(requirement, environment):
            stated.setdefault(canonicalize_name(requirement.name), []).append(Stated(requirement, statement))
    return stated, questions


def marker_environment(base: PythonBase) -> dict[str, str]:
    """The environment of PEP 508 in the image."""
    return {
        **{"implementation_name": "cpython", "os_name": "posix", "platform_machine": "x86_64"},
        **{"platform_python_implementation": "CPython", "platform_system": "Linux", "sys_platform": "linux"},
        **{"platform_release": "", "platform_version": "", "extra": ""},
        **{"python_version": base.python, "python_full_version": f"{base.python}.2"},
        **{"implementation_version": f"{base.python}.2"},
    }


def is_for(requirement: Requirement, environment: Mapping[str, str]) -> bool:
    """Whether a requirement's marker holds; True if it cannot be evaluated."""
    try:
        return requirement.marker is None or requirement.marker.evaluate(dict(environment))
    except (UndefinedComparison, UndefinedEnvironmentName, InvalidVersion):
        return True


def merged(stated: Sequence[Stated]) -> Choice:
    """One requirement for one project. A requirement that contradicts a weightier one loses, and is listed."""
    ranked = sorted(stated, key=lambda entry: (-entry.weight, entry.statement.origin.file.count("/")))
    declared = [o.statement.origin for o in ranked if o.requirement.specifier and o.statement.format not in _CI]
    joined, together = _Joined(), _Joined()
    counted = ranked[:_MOST_STATED]
    exact = [entry for entry in counted if entry.statement.format in _CI and "==" in str(entry.requirement.specifier)]
    tried = exact if declared or not all([together.add(entry.requirement.specifier) for entry in exact]) else []
    lost: list[Overruled] = []
    origins: list[Origin] = []
    extras: set[str] = set()
    for entry in counted:
        count = len(joined.parts)
        if entry in tried:
            why = "CI tries several versions" + (f", and {declared[0]} counts more" if declared else "")
            lost.append(Overruled(str(entry.requirement), entry.statement.origin, why))
            continue
        if not joined.add(entry.requirement.specifier):
            winner = origins[0] if origins else entry.statement.origin
            lost.append(
                Overruled(str(entry.requirement), entry.statement.origin, f"contradicts {winner}, which counts more")
            )
            continue
        if len(joined.parts) > count or not origins:
            origins.append(entry.statement.origin)
        extras |= entry.requirement.extras
    for first in ranked[_MOST_STATED:][:1]:
        more = f"{first.requirement.name}, {len(ranked) - _MOST_STATED} times more"
        lost.append(Overruled(more, first.statement.origin, f"the first {_MOST_STATED} statements count"))
    name = ranked[0].requirement.name
    extra = f"[{','.join(sorted(extras))}]" if extras else ""
    specifier = SpecifierSet(",".join(map(str, joined.parts)))
    origins = origins or [ranked[0].statement.origin]
    return Choice(f"{name}{extra}{specifier}", tuple(dict.fromkeys(origins)), "", tuple(dict.fromkeys(lost)))


class _Joined:
    """Specifiers that some version meets together; samples are the versions that they name, and their neighbours."""

    def __init__(self) -> None:
        self.parts: frozenset[Specifier] = frozenset()
        self._met_by = {"0", "99999"}

    def add(self, specifier: SpecifierSet) -> bool:
        """Add the specifier if some version meets it and the others. Return whether one does."""
        new = frozenset(specifier) - self.parts
        parts = self.parts | new
        left = {sample for sample in self._met_by if all(part.contains(sample, prereleases=True) for part in new)}
        beside = {sample for part in new for sample in _beside(part)} - self._met_by
        left |= {sample for sample in beside if all(part.contains(sample, prereleases=True) for part in parts)}
        if len(parts) > 1 and not left:
            return False
        self.parts, self._met_by = parts, left
        return True


def _beside(part: Specifier) -> list[str]:
    """The version that a specifier names and its neighbours; none if it is not a version of PEP 440."""
    text = part.version.removesuffix(".*")
    try:
        version = Version(text)
    except InvalidVersion:
        return []
    *start, last = version.release
    others = ((*version.release, 1), (*start, last + 1), *(((*start, last - 1, 9999),) if last else ()))
    return [text, version.public, f"{version.public}.post1", *(".".join(map(str, other)) for other in others)]


def bare(requirement: Requirement) -> Requirement:
    """The requirement without its marker, which has been evaluated."""
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
