"""The time machine: one exact version of everything that a decision requires, as of its day.

Where the day has no wheel for the Python that can be had, the nearest that has one is taken, and that is reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from reprokit.display import Notify
from reprokit.errors import SourceError
from reprokit.importing.decision import Choice, Decision, Question, Versions
from reprokit.importing.optional_versions import add_optional, ahead
from reprokit.importing.requirement_facts import (
    ANY_TIME,
    bare,
    exact,
    holds,
    is_version,
    just_after,
    names_prerelease,
    setup_requires,
    with_extras,
)
from reprokit.importing.requirement_lines import valid_requirement
from reprokit.recipe.packages import Sdist
from reprokit.redact import redact
from reprokit.supply.kinds.wheels import uv
from reprokit.supply.kinds.wheels.listing import ListedFile, Listing
from reprokit.supply.kinds.wheels.platform import AsOf, Platform, WheelRequest
from reprokit.supply.kinds.wheels.resolve import resolve_versions
from reprokit.supply.mirrors.places import Mirrors

_ATTEMPTS = 25
_AT_ONCE = 8
_BUILD = ("setuptools", "wheel")
_METADATA = ("pyproject.toml", "setup.py", "setup.cfg")


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
        every = {key: Requirement(choice.value) for key, choice in decision.requirements.items()}
        self.requirements = {key: r for key, r in every.items() if key not in decision.optional}
        self.optional = {key: r for key, r in every.items() if key in decision.optional}
        self.preferred = {name: v for name, v in decision.preferred.items() if is_version(v)}
        self.sdists: dict[str, Sdist] = {}
        self.later: dict[str, str] = {}
        # By project: what replaces a version that was found earlier also replaces the question about it.
        self.questions: dict[str, Question] = {}
        self.excluded: list[str] = []
        self.mentioned: dict[str, SpecifierSet] = {}
        self.tried: set[tuple[str, str]] = set()

    def run(self) -> Versions:
        pins = self._resolved()
        left_out = self._with_optional(pins) if self.optional else ()
        pins = {name: version for name, version in pins.items() if name not in self.sdists}
        return Versions(
            pins, tuple(self.sdists.values()), tuple(self.questions.values()), dict(self.later), frozenset(left_out)
        )

    def _resolved(self) -> dict[str, str]:
        """The versions of what the repository requires. Raises SourceError where none are found."""
        for _ in range(_ATTEMPTS):
            try:
                pins = self._ask([str(bare(r)) for key, r in self.requirements.items() if key not in self.sdists])
            except uv.Unsatisfied as error:
                if not self._repair(error):
                    raise
            except uv.Unreachable:
                raise
            except SourceError as error:
                if not self.indexes:
                    raise
                where = error.where or "an index of the repository"
                self.questions[where] = Question(f"{where} does not answer; versions are resolved without it")
                self.indexes = ()
            else:
                if unfit := self._unfit(pins):
                    self.excluded += unfit
                elif not self._follow_companions(pins):
                    return pins
        raise SourceError("no versions that fit together were found", self.decision.name)

    def _ask(self, wanted: Sequence[str]) -> dict[str, str]:
        sdists, as_of = list(self.sdists.values()), AsOf(self.time, self.later)
        request = WheelRequest(wanted, self.platform, sdists, self.indexes, as_of, constraints=self.excluded)
        found = resolve_versions(request, self.mirrors, self.notify, self.preferred)
        return {canonicalize_name(p.name): p.version for p in found}

    def _unfit(self, pins: Mapping[str, str]) -> list[str]:
        """Those whose wheels exclude this Python by an upper bound, which uv ignores and pip does not."""

        def excluded(pin: tuple[str, str]) -> bool:
            files = [f for f in self.listing.files(pin[0]) if f.is_wheel and f.version == Version(pin[1])]
            return bool(files) and not any(f.fits(self.platform) for f in files)

        pure = [pin for pin in pins.items() if pin[0] not in self.sdists and is_version(pin[1])]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            unfit = list(pool.map(excluded, pure))
        return [f"{name}!={version}" for (name, version), bad in zip(pure, unfit, strict=True) if bad]

    def _follow_companions(self, pins: Mapping[str, str]) -> bool:
        """Take the release of a newer companion, such as a jaxlib that refuses an older jax. True if one changed."""
        for project, version in ahead(pins):
            self.sdists.pop(project, None)
            self.later[project] = ANY_TIME
            self.requirements[project] = Requirement(f"{project}=={version}")
            text = f"no older wheel of what {project} loads can be had for Python {self.platform.python}"
            self._question(project, f"{project} {version} is taken: {text}")
        return bool(ahead(pins))

    def _with_optional(self, pins: dict[str, str]) -> list[str]:
        """Add what only an optional part needs to `pins`; what does not fit is returned, and is a question."""

        def ask(fixed: Mapping[str, str], keys: Sequence[str]) -> dict[str, str]:
            exact = [f"{name}=={version}" for name, version in fixed.items() if name not in self.sdists]
            found = self._ask([*exact, *(str(bare(self.optional[key])) for key in keys)])
            if self._unfit(found):
                raise uv.Unsatisfied("a wheel excludes this Python")
            return found

        left_out = add_optional(pins, [key for key in self.optional if key not in pins], ask)
        for key in left_out:
            text = f"no wheel of {self._choice(key).value} fits the others"
            self._question(key, f"{text}; only an optional part needs it, so it is left out")
        return left_out

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
            self.questions["lock"] = Question("the versions of the lock file do not fit, and are not used")
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
            ((v, f) for v, f in found if specifier.contains(v, prereleases=names_prerelease(specifier))),
            key=lambda pair: pair[1].uploaded,
        )

    def _specifier(self, project: str) -> SpecifierSet:
        return self.requirements[project].specifier if project in self.requirements else SpecifierSet()

    def _missing(self, project: str) -> bool:
        """Leave out what the index does not have at all, such as a name with a typing error."""
        if project not in self.requirements or self.listing.files(project) or not self.mirrors.pip.index:
            return False
        self._question(project, f"the index has no {project}, which is left out; is the name right?")
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
            and file.fits(self.platform) and specifier.contains(version, prereleases=names_prerelease(specifier))
            and not (self.time and file.uploaded > self.time)
        ]  # fmt: skip
        if not chosen:
            return False
        # Where the newest release of the day has wheels, for other Pythons, the next one mostly has one for this.
        newest = max(version for version, _ in chosen)
        early = (f.version for f in files if f.is_wheel and f.version and not (self.time and f.uploaded > self.time))
        better = any(v > newest and specifier.contains(v) for v in early)
        if better and self._fitting(project) and not exact(specifier) and not within:
            return False
        version, file = max(chosen, key=lambda pair: pair[0])
        if version.is_prerelease and not names_prerelease(specifier):
            return False
        requires = self.listing.requires(file)
        if requires is None:
            self.questions[project] = Question(f"{project} {version} is an sdist that does not state what it needs")
        else:
            self.questions.pop(project, None)
        needed = tuple(text for text in requires or () if holds(text, self.decision))
        self.sdists[project] = Sdist(package=f"{project}=={version}", requires=list(needed))
        for text in (*self.listing.build_requires(file), *setup_requires(self.listing.setup_py(file)), *_BUILD):
            if (build := valid_requirement(text)) and not build.url and holds(text, self.decision):
                self.requirements.setdefault(canonicalize_name(build.name), bare(build))
        return True

    def _later(self, project: str) -> bool:
        """Take the first wheel after the day where the day has none for this Python."""
        fitting = self._fitting(project)
        if not self.time or not fitting or project in self.later or any(f.uploaded <= self.time for _, f in fitting):
            return False
        version, file = next(((v, f) for v, f in fitting if not v.is_prerelease), fitting[0])
        if not file.uploaded:
            return False
        self.later[project] = just_after(file.uploaded)
        text = f"on {self.decision.day} no {project} had a wheel for Python {self.platform.python}; {version} of"
        self._question(project, f"{text} {file.uploaded[:10]} is the first that has")
        return True

    def _nearest(self, project: str) -> bool:
        """Replace an exact version without a usable wheel by the next release that has one, or else the one before."""
        specifier = self._specifier(project)
        if project not in self.requirements or not (stated := exact(specifier)) or self._fitting(project):
            return False
        found = sorted(
            {v for f in self.listing.files(project) if f.is_wheel and (v := f.version) and f.fits(self.platform)}
        )
        stable = [version for version in found if not version.is_prerelease] or found
        if not stable:
            return False
        nearest = next((version for version in stable if version > stated), stable[-1])
        uploads = [f.uploaded for f in self.listing.files(project) if f.version == nearest and f.fits(self.platform)]
        if self.time and min(uploads) > self.time:
            self.later[project] = just_after(max(uploads))
        old = self.requirements[project]
        self.requirements[project] = Requirement(f"{with_extras(old)}=={nearest}")
        text = f"{old} has no wheel for Python {self.platform.python}; {nearest} is the nearest that has"
        self._question(project, text)
        return True

    def _forget(self, key: str, why: str) -> bool:
        old = self.requirements[key]
        self._question(key, f"{self._choice(key).value} is resolved without its version: {why}")
        self.requirements[key] = Requirement(with_extras(old))
        self.preferred.pop(key, None)
        return True

    def _question(self, project: str, text: str) -> None:
        self.questions[project] = Question(text, next(iter(self._choice(project).origins), None))

    def _choice(self, project: str) -> Choice:
        return self.decision.requirements.get(project, Choice(project))

    def _is_metadata(self, key: str) -> bool:
        return any(origin.file.endswith(_METADATA) for origin in self._choice(key).origins)
