"""The time machine: one exact version of everything that a decision requires, as of its day.

Where the day has no wheel for the Python that can be had, the nearest that has one is taken, and that is reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from reprokit.display import Notify
from reprokit.errors import SourceError
from reprokit.importing.decision import Choice, Decision, Question
from reprokit.importing.merge import marker_environment
from reprokit.importing.model import SourceFile
from reprokit.importing.readers import setup_py
from reprokit.importing.requirement_lines import valid_requirement
from reprokit.recipe.packages import Sdist
from reprokit.redact import redact
from reprokit.supply.kinds.wheels import uv
from reprokit.supply.kinds.wheels.listing import ListedFile, Listing
from reprokit.supply.kinds.wheels.platform import AsOf, Platform, WheelRequest
from reprokit.supply.kinds.wheels.resolve import resolve_versions
from reprokit.supply.mirrors.places import Mirrors

_ATTEMPTS = 25
_BUILD = ("setuptools", "wheel")
_METADATA = ("pyproject.toml", "setup.py", "setup.cfg")


@dataclass(frozen=True)
class Versions:
    """Exact versions by project, those of `sdists` apart. `questions` say where they are not those of the day."""

    pins: Mapping[str, str]
    sdists: tuple[Sdist, ...] = ()
    questions: tuple[Question, ...] = ()
    later: Mapping[str, str] = field(default_factory=dict)


def versions_of(decision: Decision, platform: Platform, mirrors: Mirrors, notify: Notify, time: str) -> Versions:
    """Resolve a decision. Files count that were uploaded by `time` (ISO 8601; empty for all).

    Raises SourceError where no set of versions fits, or the index does not answer.
    """
    search = _Resolution(decision, platform, mirrors, notify, time)
    return search.run()


class _Resolution:
    def __init__(self, decision: Decision, platform: Platform, mirrors: Mirrors, notify: Notify, time: str) -> None:
        self.decision, self.platform, self.mirrors, self.notify, self.time = decision, platform, mirrors, notify, time
        self.indexes = decision.indexes
        self.listing = Listing(mirrors)
        self.requirements = {key: _parsed(choice) for key, choice in decision.requirements.items()}
        self.preferred = {name: v for name, v in decision.preferred.items() if _is_version(v)}
        self.sdists: dict[str, Sdist] = {}
        self.later: dict[str, str] = {}
        self.questions: list[Question] = []
        self.mentioned: dict[str, SpecifierSet] = {}
        self.tried: set[tuple[str, str]] = set()

    def run(self) -> Versions:
        for _ in range(_ATTEMPTS):
            wanted = [str(_bare(r)) for key, r in self.requirements.items() if key not in self.sdists]
            try:
                sdists, as_of = list(self.sdists.values()), AsOf(self.time, self.later)
                request = WheelRequest(wanted, self.platform, sdists, self.indexes, as_of)
                found = resolve_versions(request, self.mirrors, self.notify, self.preferred)
            except uv.Unsatisfied as error:
                if not self._repair(error):
                    raise
            except uv.Unreachable:
                raise
            except SourceError as error:
                if not self.indexes:
                    raise
                where = error.where or "an index of the repository"
                self.questions.append(Question(f"{where} does not answer; versions are resolved without it"))
                self.indexes = ()
            else:
                pins: dict[str, str] = {canonicalize_name(p.name): p.version for p in found}
                pins = {name: version for name, version in pins.items() if name not in self.sdists}
                return Versions(pins, tuple(self.sdists.values()), tuple(self.questions), dict(self.later))
        raise SourceError("no versions that fit together were found", self.decision.name)

    def _repair(self, error: uv.Unsatisfied) -> bool:
        """Change one thing that the error names. False where nothing is left to change."""
        found = [valid_requirement(text) for text in (*error.projects, error.where)]
        named: list[str] = list(dict.fromkeys(canonicalize_name(one.name) for one in found if one))
        where = found[-1]
        self.mentioned = {}
        if where and "==" in error.where:
            self.mentioned = {canonicalize_name(where.name): where.specifier}
        self._check_times(named)
        repaired = False
        for project in named:
            for step in (self._missing, self._sdist, self._later, self._nearest):
                if (project, step.__name__) not in self.tried and step(project):
                    self.tried.add((project, step.__name__))
                    repaired = True
                    break
        if repaired:
            return True
        # Newer releases have wheels and do not fit with the others; an older one that does is built.
        for one in filter(None, found):
            older = (canonicalize_name(one.name), "older")
            if one.specifier and older not in self.tried and self._sdist(older[0], one.specifier):
                self.tried.add(older)
                return True
        # They contradict each other: give up the least of the authors' exact versions.
        loose = [key for key in named if key in self.requirements and self.requirements[key].specifier]
        loose.sort(key=lambda key: self._is_metadata(key))
        for key in loose:
            return self._forget(key, "it does not fit with the others")
        if self.preferred:
            self.questions.append(Question("the versions of the lock file do not fit, and are not used"))
            self.preferred = {}
            return True
        return False

    def _check_times(self, projects: Iterable[str]) -> None:
        """Raises SourceError where the index has files of a project and says of none when it was uploaded."""
        for project in projects if self.time else ():
            files = self.listing.files(project)
            if files and not any(file.uploaded for file in files):
                raise SourceError(
                    f"the index gives no upload times: its {project} of {self.decision.day} is not known",
                    redact(self.mirrors.pip.index),
                    "--as-of now takes the newest; an index with upload times (PEP 700) knows the others",
                )

    def _fitting(self, project: str) -> list[tuple[Version, ListedFile]]:
        """The wheels that the platform can use and that the requirement takes, oldest upload first."""
        specifier = self._specifier(project)
        found = [
            (v, f) for f in self.listing.files(project) if f.is_wheel and (v := f.version) and f.fits(self.platform)
        ]
        return sorted(
            ((v, f) for v, f in found if specifier.contains(v, prereleases=_names_prerelease(specifier))),
            key=lambda pair: pair[1].uploaded,
        )

    def _specifier(self, project: str) -> SpecifierSet:
        return self.requirements[project].specifier if project in self.requirements else SpecifierSet()

    def _missing(self, project: str) -> bool:
        """Leave out what the index does not have at all, such as a name with a typing error."""
        if project not in self.requirements or self.listing.files(project) or not self.mirrors.pip.index:
            return False
        origin = next(iter(self._choice(project).origins), None)
        self.questions.append(Question(f"the index has no {project}, which is left out; is the name right?", origin))
        del self.requirements[project]
        return True

    def _sdist(self, project: str, within: SpecifierSet | None = None) -> bool:
        """Take the newest sdist where no release that fits has a wheel. `within` limits the releases further."""
        # Of a project that others require, the error names the version.
        specifier = self._specifier(project) or self.mentioned.get(project, SpecifierSet())
        specifier &= within or SpecifierSet()
        files = self.listing.files(project)
        with_wheels = {file.version for file in files if file.is_wheel}
        chosen = [
            (version, file)
            for file in files
            if not file.is_wheel and (version := file.version) and version not in with_wheels
            and file.fits(self.platform) and specifier.contains(version, prereleases=_names_prerelease(specifier))
            and not (self.time and file.uploaded > self.time)
        ]  # fmt: skip
        had_wheels = any(f.is_wheel and not (self.time and f.uploaded > self.time) for f in files)
        if not chosen or (had_wheels and self._fitting(project) and not _exact(specifier) and not within):
            return False
        version, file = max(chosen, key=lambda pair: pair[0])
        if version.is_prerelease and not _names_prerelease(specifier):
            return False
        requires = self.listing.requires(file)
        if requires is None:
            self.questions.append(Question(f"{project} {version} is an sdist that does not state what it needs"))
        needed = tuple(text for text in requires or () if _holds(text, self.decision))
        self.sdists[project] = Sdist(package=f"{project}=={version}", requires=list(needed))
        for text in (*self.listing.build_requires(file), *_setup_requires(self.listing.setup_py(file)), *_BUILD):
            if (build := valid_requirement(text)) and not build.url and _holds(text, self.decision):
                self.requirements.setdefault(canonicalize_name(build.name), _bare(build))
        return True

    def _later(self, project: str) -> bool:
        """Take the first wheel after the day where the day has none for this Python."""
        fitting = self._fitting(project)
        if not self.time or not fitting or project in self.later or any(f.uploaded <= self.time for _, f in fitting):
            return False
        version, file = next(((v, f) for v, f in fitting if not v.is_prerelease), fitting[0])
        if not file.uploaded:
            return False
        self.later[project] = _just_after(file.uploaded)
        origin = next(iter(self._choice(project).origins), None)
        text = f"on {self.decision.day} no {project} had a wheel for Python {self.platform.python}; {version} of"
        self.questions.append(Question(f"{text} {file.uploaded[:10]} is the first that has", origin))
        return True

    def _nearest(self, project: str) -> bool:
        """Replace an exact version without a usable wheel by the next release that has one, or else the one before."""
        specifier = self._specifier(project)
        if project not in self.requirements or not (exact := _exact(specifier)) or self._fitting(project):
            return False
        found = sorted(
            {v for f in self.listing.files(project) if f.is_wheel and (v := f.version) and f.fits(self.platform)}
        )
        stable = [version for version in found if not version.is_prerelease] or found
        if not stable:
            return False
        nearest = next((version for version in stable if version > exact), stable[-1])
        uploads = [f.uploaded for f in self.listing.files(project) if f.version == nearest and f.fits(self.platform)]
        if self.time and min(uploads) > self.time:
            self.later[project] = _just_after(max(uploads))
        old = self.requirements[project]
        self.requirements[project] = Requirement(f"{_with_extras(old)}=={nearest}")
        origin = next(iter(self._choice(project).origins), None)
        text = f"{old} has no wheel for Python {self.platform.python}; {nearest} is the nearest that has"
        self.questions.append(Question(text, origin))
        return True

    def _forget(self, key: str, why: str) -> bool:
        old = self.requirements[key]
        origin = next(iter(self._choice(key).origins), None)
        self.questions.append(Question(f"{old} is resolved without its version: {why}", origin))
        self.requirements[key] = Requirement(_with_extras(old))
        self.preferred.pop(key, None)
        return True

    def _choice(self, project: str) -> Choice:
        return self.decision.requirements.get(project, Choice(project))

    def _is_metadata(self, key: str) -> bool:
        return any(origin.file.endswith(_METADATA) for origin in self._choice(key).origins)


def _setup_requires(text: str) -> list[str]:
    """What a setup.py asks setuptools to fetch while it runs, which no image can."""
    try:
        stated = list(setup_py.read(SourceFile("setup.py", text, "setup.py")))
    except ValueError:  # not Python 3
        return []
    return [s.value for s in stated if s.subject == "package" and s.scope == "build"]


def _parsed(choice: Choice) -> Requirement:
    return Requirement(choice.value)


def _bare(requirement: Requirement) -> Requirement:
    """The requirement without its marker, which was evaluated."""
    bare = Requirement(str(requirement))
    bare.marker = None
    return bare


def _with_extras(requirement: Requirement) -> str:
    return requirement.name + (f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else "")


def _exact(specifier: SpecifierSet) -> Version | None:
    """The version of `==1.2`, or the first of `==1.2.*`."""
    for part in specifier:
        if part.operator in ("==", "==="):
            return Version(part.version.removesuffix(".*")) if _is_version(part.version.removesuffix(".*")) else None
    return None


def _names_prerelease(specifier: SpecifierSet) -> bool:
    return any(_is_version(p.version) and Version(p.version).is_prerelease for p in specifier)


def _is_version(text: str) -> bool:
    try:
        Version(text)
    except InvalidVersion:
        return False
    return True


def _holds(text: str, decision: Decision) -> bool:
    requirement = Requirement(text)
    return requirement.marker is None or requirement.marker.evaluate(marker_environment(decision.base))


def _just_after(uploaded: str) -> str:
    """Some hours after an upload, so that the other files of a release count too."""
    moment = datetime.fromisoformat(uploaded.replace("Z", "+00:00")) + timedelta(hours=6)
    return moment.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
