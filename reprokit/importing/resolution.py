"""Versions as an index had them on a day: what is asked, and which sdists stand in for wheels."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from reprokit.compat.model import Stack
from reprokit.compat.pins import resolved_wheels
from reprokit.errors import SourceError
from reprokit.importing.decision import Choice, Decision, Question
from reprokit.importing.reading import ReaderProcess
from reprokit.importing.requirement_facts import (
    bare,
    exact,
    holds,
    is_version,
    names_prerelease,
    setup_py,
)
from reprokit.importing.requirement_lines import valid_requirement
from reprokit.recipe.model import Sdist
from reprokit.redact import redact
from reprokit.supply.kinds.wheels.listing import ListedFile, Listing
from reprokit.supply.kinds.wheels.platform import AsOf, Platform, WheelRequest
from reprokit.supply.kinds.wheels.resolve import resolve_versions
from reprokit.supply.kinds.wheels.within_facts import within_facts
from reprokit.supply.mirrors.places import Mirrors

_AT_ONCE = 8
_BUILD = ("setuptools", "wheel")
_METADATA = ("pyproject.toml", "setup.py", "setup.cfg")


class DayResolution:
    """The requirements of a decision as far as they are resolved. Sdists are read, and only taken if needed."""

    def __init__(
        self, decision: Decision, platform: Platform, mirrors: Mirrors, time: str, reader: ReaderProcess
    ) -> None:
        self.decision, self.platform, self.mirrors, self.time = decision, platform, mirrors, time
        self.reader = reader
        self.indexes = decision.indexes
        self.listing = Listing(mirrors)
        every = {key: Requirement(choice.value) for key, choice in decision.requirements.items()}
        self.requirements = {key: r for key, r in every.items() if key not in decision.optional}
        self.optional = {key: r for key, r in every.items() if key in decision.optional}
        self.preferred = {name: v for name, v in decision.preferred.items() if is_version(v)}
        self.sdists: dict[str, Sdist] = {}
        self.libraries: dict[str, list[str]] = {}  # that sdists look for
        self.later: dict[str, str] = {}
        # By project: what replaces a version that was found earlier also replaces the question about it.
        self.questions: dict[str, Question] = {}
        self.excluded: list[str] = []
        self.mentioned: dict[str, SpecifierSet] = {}
        self.tried: set[tuple[str, str]] = set()

    def requested(self, known: Collection[str] = ()) -> list[str]:
        """The requirements beside those that are known; those that an sdist meets, at its version."""
        return [
            self.sdists[key].package if key in self.sdists else str(bare(requirement))
            for key, requirement in self.requirements.items()
            if key not in known
        ]

    def ask(self, requested: Sequence[str]) -> dict[str, str]:
        """Resolve requirements, within the facts. Raises SourceError, see `resolve_versions`."""
        sdists, as_of = list(self.sdists.values()), AsOf(self.time, self.later)

        def resolve(constraints: Sequence[str]) -> dict[str, str]:
            limits = [*self.excluded, *constraints]
            request = WheelRequest(
                requested, self.platform, sdists, self.indexes, as_of, constraints=limits, sdists_if_needed=True
            )
            found = resolve_versions(request, self.mirrors, self.preferred)
            return {canonicalize_name(p.name): p.version for p in found}

        return within_facts(resolve, self._stack, requested)

    def _stack(self, versions: Mapping[str, str]) -> Stack:
        base = self.decision.base
        pins = {name: choice.value for name, choice in self.decision.pins.items()}
        wheels = ((name, version) for name, version in versions.items() if name not in self.sdists)
        return Stack({**pins, "distro": base.distro, "python": base.python}, resolved=resolved_wheels(wheels, ""))

    def unfit(self, pins: Mapping[str, str]) -> list[str]:
        """Those whose wheels exclude this Python by an upper bound, which uv ignores and pip does not."""

        def excluded(pin: tuple[str, str]) -> bool:
            files = [f for f in self.listing.files(pin[0]) if f.is_wheel and f.version == Version(pin[1])]
            return bool(files) and not any(f.fits(self.platform) for f in files)

        pure = [pin for pin in pins.items() if pin[0] not in self.sdists and is_version(pin[1])]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            unfit = list(pool.map(excluded, pure))
        return [f"{name}!={version}" for (name, version), bad in zip(pure, unfit, strict=True) if bad]

    def check_times(self, projects: Iterable[str]) -> None:
        """Raises SourceError if the index has files of a project and says of none when it was uploaded."""
        for project in projects if self.time else ():
            files = self.listing.files(project)
            if not files or any(file.uploaded for file in (*files, *self.listing.files("pip"))):
                continue  # an index with times may lack those of single files
            raise SourceError(
                f"the index gives no upload times: its {project} of {self.decision.day} is not known",
                redact(self.mirrors.pip.index),
                "--as-of now takes the newest; an index with upload times (PEP 700) knows the others",
            )

    def fitting(self, project: str) -> list[tuple[Version, ListedFile]]:
        """The wheels that the platform can use and that the requirement takes, oldest upload first."""
        specifier = self.specifier(project)
        found = [
            (v, f) for f in self.listing.files(project) if f.is_wheel and (v := f.version) and f.fits(self.platform)
        ]
        return sorted(
            ((v, f) for v, f in found if specifier.contains(v, prereleases=names_prerelease(specifier))),
            key=lambda pair: pair[1].uploaded,
        )

    def specifier(self, project: str) -> SpecifierSet:
        return self.requirements[project].specifier if project in self.requirements else SpecifierSet()

    def use_sdist(self, project: str, within: SpecifierSet | None = None) -> bool:
        """Take the newest sdist if no release that fits has a wheel. `within` limits the releases further."""
        # Of a project that others require, the error names the version.
        specifier = self.specifier(project) or self.mentioned.get(project, SpecifierSet())
        specifier &= within or SpecifierSet()
        files = self.listing.files(project)
        # As a last resort also of a release whose wheels are for other Pythons: an older one without any is no better.
        with_wheels = {file.version for file in files if file.is_wheel and (within is None or file.fits(self.platform))}
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
        if better and self.fitting(project) and not exact(specifier) and not within:
            return False
        version, file = max(chosen, key=lambda pair: pair[0])
        if version.is_prerelease and not names_prerelease(specifier):
            return False
        requires = self.listing.requires(file)
        self.questions.pop(project, None)
        if requires is None:
            self.questions[project] = Question(f"{project} {version} is an sdist that does not state what it needs")
        elif project in self.requirements and (extras := self.requirements[project].extras):
            names = ", ".join(sorted(extras))
            self.question(project, f"{project} {version} is built from an sdist, without its extras {names}")
        needed = tuple(text for text in requires or () if holds(text, self.decision))
        self.sdists[project] = Sdist(package=f"{project}=={version}", requires=list(needed))
        build_script = setup_py(self.listing.setup_py(file), self.reader)
        self.libraries[project] = build_script.libraries
        for text in (*self.listing.build_requires(file), *build_script.requires, *_BUILD):
            if (build := valid_requirement(text)) and not build.url and holds(text, self.decision):
                self.requirements.setdefault(canonicalize_name(build.name), bare(build))
        return True

    def use_pure(self, project: str) -> bool:
        """Take the newest sdist if no compiler is needed for it; otherwise nothing changes."""
        before = dict(self.sdists), dict(self.requirements)
        if project not in self.sdists and self.use_sdist(project):
            version = self.sdists[project].package.partition("==")[2]
            if all(self.listing.is_pure(f) for f in self.listing.files(project) if str(f.version) == version):
                return True
            self.sdists, self.requirements = before
        return False

    def question(self, project: str, text: str) -> None:
        self.questions[project] = Question(text, next(iter(self.choice(project).origins), None))

    def choice(self, project: str) -> Choice:
        return self.decision.requirements.get(project, Choice(project))

    def is_metadata(self, key: str) -> bool:
        return any(origin.file.endswith(_METADATA) for origin in self.choice(key).origins)
