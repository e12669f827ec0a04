"""Exact versions of everything that a decision requires, as of its day.

If no wheel existed that day for the available Python, take the nearest version that has one, and report it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from reprokit.compat.distributions import bundled_distributions
from reprokit.compat.model import Stack
from reprokit.compat.stack import resolved_wheels
from reprokit.display import notify
from reprokit.errors import SourceError
from reprokit.importing.decision import Choice, Decision, Question, Versions
from reprokit.importing.merge import bare, exact, is_for, is_version, marker_environment, names_prerelease, with_extras
from reprokit.importing.model import SourceFile
from reprokit.importing.reading import ReaderProcess
from reprokit.importing.requirement_lines import valid_requirement
from reprokit.importing.system_choice import packages_of
from reprokit.recipe.model import Sdist
from reprokit.redact import redact
from reprokit.supply.kinds.wheels import uv
from reprokit.supply.kinds.wheels.listing import ListedFile, Listing
from reprokit.supply.kinds.wheels.platform import AsOf, Platform, WheelRequest
from reprokit.supply.kinds.wheels.resolve import IndexUnreachable, resolve_versions, within_facts
from reprokit.supply.mirrors import Mirrors

# After every upload.
ANY_TIME = "9999-01-01T00:00:00Z"


class SetupPy(NamedTuple):
    """The build requirements that the setup.py of an sdist states."""

    requires: tuple[str, ...]  # setuptools would download these while it runs, which no image can
    libraries: list[str]  # headers, programs and libraries that it checks for before it compiles


def setup_py(text: str, reader: ReaderProcess) -> SetupPy:
    """Read a stranger's setup.py; empty if it cannot be read within the limits of a repository's file."""
    if not text:
        return SetupPy((), [])
    stated = reader.statements(SourceFile("setup.py", text, "setup.py"))
    requires = (s.value for s in stated if s.subject == "package" and s.scope == "build")
    return SetupPy(tuple(requires), [s.value for s in stated if s.subject == "library"])


def holds(text: str, decision: Decision) -> bool:
    """Whether a text is a valid requirement for this Python."""
    requirement = valid_requirement(text)
    return requirement is not None and is_for(requirement, marker_environment(decision.base))


def just_after(uploaded: str) -> str:
    """Some hours after an upload, so that the other files of a release count too."""
    moment = datetime.fromisoformat(uploaded.replace("Z", "+00:00")) + timedelta(hours=6)
    return moment.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def add_optional(
    pins: dict[str, str],
    projects: Sequence[str],
    ask: Callable[[Mapping[str, str], Sequence[str]], Mapping[str, str]],
) -> list[str]:
    """Add `projects` to `pins`, and return those that do not fit.

    Existing pins never change. `ask` resolves projects beside pins, or raises SourceError. If a group does not fit, its
    halves are tried.
    """
    if not projects:
        return []
    try:
        pins |= ask(pins, projects)
    except SourceError:
        if len(projects) == 1:
            return list(projects)
        half = len(projects) // 2
        return add_optional(pins, projects[:half], ask) + add_optional(pins, projects[half:], ask)
    return []


def present(project: str, pins: Mapping[str, str]) -> bool:
    """Whether pins have the project, or another project with the same module."""
    distributions = bundled_distributions()
    same = {project}
    for module, others in distributions.alternatives.items():
        every = {distributions.of_module(module) or module, *others}
        same |= every if project in every else set()
    return not same.isdisjoint(pins)


def ahead(pins: Mapping[str, str]) -> list[tuple[str, str]]:
    """The projects with a newer companion, and its version."""
    return [
        (project, pins[needed])
        for project, companions in bundled_distributions().companions.items()
        for needed in companions
        if project in pins and needed in pins and Version(pins[needed]) > Version(pins[project])
    ]


_AT_ONCE = 8
_BUILD = ("setuptools", "wheel")
_METADATA = ("pyproject.toml", "setup.py", "setup.cfg")


_ATTEMPTS = 25
# Sdists that one optional requirement may take.
_SDISTS = 4


def versions_of(decision: Decision, platform: Platform, mirrors: Mirrors, time: str) -> Versions:
    """Resolve a decision with files uploaded by `time` (ISO 8601; empty for all).

    Raises SourceError if no set of versions fits, or the index does not answer.
    """
    with ReaderProcess() as reader:
        return DayResolution(decision, platform, mirrors, time, reader).run()


def named(error: uv.Unsatisfied) -> list[str]:
    """The projects that an error names."""
    requirements = [valid_requirement(text) for text in (*error.projects, error.where)]
    return list(dict.fromkeys(str(canonicalize_name(requirement.name)) for requirement in requirements if requirement))


class DayResolution:
    """The state of resolving a decision's requirements. Sdists are used only if needed; only their text is read."""

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
        # By project: a new version also replaces the question about the earlier one.
        self.questions: dict[str, Question] = {}
        self.excluded: list[str] = []
        self.mentioned: dict[str, SpecifierSet] = {}
        self.tried: set[tuple[str, str]] = set()

    def requested(self, resolved: Collection[str] = ()) -> list[str]:
        """The requirements except `resolved` ones; an sdist's version replaces its project's requirement."""
        return [
            self.sdists[key].package if key in self.sdists else str(bare(requirement))
            for key, requirement in self.requirements.items()
            if key not in resolved
        ]

    def ask(self, requested: Sequence[str]) -> dict[str, str]:
        """Resolve requirements, within the facts. Raises SourceError, see `resolve_versions`."""
        sdists, as_of = list(self.sdists.values()), AsOf(self.time, self.later)

        def resolve(constraints: Sequence[str]) -> dict[str, str]:
            limits = [*self.excluded, *constraints]
            request = WheelRequest(
                requested, self.platform, sdists, self.indexes, as_of, constraints=limits, sdists_if_needed=True
            )
            wheels = resolve_versions(request, self.mirrors, self.preferred)
            return {canonicalize_name(p.name): p.version for p in wheels}

        return within_facts(resolve, self._stack, requested)

    def _stack(self, versions: Mapping[str, str]) -> Stack:
        base = self.decision.base
        pins = {name: choice.value for name, choice in self.decision.pins.items()}
        wheels = ((name, version) for name, version in versions.items() if name not in self.sdists)
        return Stack({**pins, "distro": base.distro, "python": base.python}, resolved=resolved_wheels(wheels, ""))

    def unfit(self, pins: Mapping[str, str]) -> list[str]:
        """Exclusions of pins whose wheels have an upper bound below this Python, which uv ignores and pip does not."""

        def excluded(pin: tuple[str, str]) -> bool:
            files = [f for f in self.listing.files(pin[0]) if f.is_wheel and f.version == Version(pin[1])]
            return bool(files) and not any(f.fits(self.platform) for f in files)

        pure = [pin for pin in pins.items() if pin[0] not in self.sdists and is_version(pin[1])]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            unfit = list(pool.map(excluded, pure))
        return [f"{name}!={version}" for (name, version), bad in zip(pure, unfit, strict=True) if bad]

    def check_times(self, projects: Iterable[str]) -> None:
        """Raises SourceError if the index has files of a project without upload times."""
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
        """The wheels that fit the platform and the requirement, oldest upload first."""
        specifier = self.specifier(project)
        wheels = [
            (v, f) for f in self.listing.files(project) if f.is_wheel and (v := f.version) and f.fits(self.platform)
        ]
        return sorted(
            ((v, f) for v, f in wheels if specifier.contains(v, prereleases=names_prerelease(specifier))),
            key=lambda pair: pair[1].uploaded,
        )

    def specifier(self, project: str) -> SpecifierSet:
        return self.requirements[project].specifier if project in self.requirements else SpecifierSet()

    def use_sdist(self, project: str, within: SpecifierSet | None = None) -> bool:
        """Take the newest sdist if no release that fits has a wheel. `within` limits the releases further."""
        # If other projects require this one, the error names the version.
        specifier = self.specifier(project) or self.mentioned.get(project, SpecifierSet())
        specifier &= within or SpecifierSet()
        files = self.listing.files(project)
        # With `within`, also use releases whose wheels are for other Pythons: an older one without wheels is no better.
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
        # If the newest release of the day has wheels for other Pythons, the next mostly has a wheel for this Python.
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
        """Use the newest sdist if it needs no compiler; otherwise nothing changes."""
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

    def run(self) -> Versions:
        pins = self._resolved()
        left_out = frozenset(self._with_optional(pins))
        sdists = tuple(sdist for name, sdist in self.sdists.items() if name in pins)
        wheels = {name: version for name, version in pins.items() if name not in self.sdists}
        apt = tuple(self._apt(pins))
        return Versions(wheels, sdists, tuple(self.questions.values()), dict(self.later), left_out, apt)

    def _apt(self, pins: Mapping[str, str]) -> Iterator[Choice]:
        for project in (project for project in self.sdists if project in pins):
            for library in self.libraries[project]:
                for name in packages_of(library, bundled_distributions()):
                    yield Choice(name, (), f"the sdist of {project} looks for {library}")

    def _resolved(self) -> dict[str, str]:
        """The versions of the repository's requirements. Raises SourceError if none fit together."""
        for _ in range(_ATTEMPTS):
            try:
                pins = self.ask(self.requested())
            except uv.Unsatisfied as error:
                if not self._repair(error):
                    raise
            except uv.Unreachable:
                raise
            except IndexUnreachable as error:
                self._continue_without(error.indexes)
            except SourceError as error:
                if not self.indexes:
                    raise
                where = error.where or "an index of the repository"
                self.questions[where] = Question(f"{where} does not answer; versions are resolved without it")
                self.indexes = ()
            else:
                if unfit := self.unfit(pins):
                    self.excluded += unfit
                elif not self._follow_companions(pins):
                    return self._with_newest(pins)
        raise SourceError("no versions that fit together were found", self.decision.name)

    def _continue_without(self, indexes: Sequence[str]) -> None:
        """Use the same releases from the other indexes, which lack builds such as `+cu118`."""
        self.indexes = tuple(index for index in self.indexes if index not in indexes)
        builds = []
        for requirements in (self.requirements, self.optional):
            for key, requirement in requirements.items():
                version = exact(requirement.specifier)
                if version and version.local:
                    builds += [str(requirement)] if key != "torch" else []  # see torch_build.without_index
                    requirements[key] = Requirement(f"{with_extras(requirement)}=={version.public}")
        self.preferred = {name: version.partition("+")[0] for name, version in self.preferred.items()}
        instead = f"; the same releases are taken from other indexes: {', '.join(builds)}" if builds else ""
        for index in indexes:
            self.questions[index] = Question(f"{index} cannot be reached{instead}")

    def _follow_companions(self, pins: Mapping[str, str]) -> bool:
        """Take the release of a newer companion, such as a jaxlib that refuses an older jax. True if one changed."""
        for project, version in ahead(pins):
            self.sdists.pop(project, None)
            self.later[project] = ANY_TIME
            self.requirements[project] = Requirement(f"{project}=={version}")
            text = f"no older wheel of what {project} loads can be had for Python {self.platform.python}"
            self.question(project, f"{project} {version} is taken: {text}")
        return bool(ahead(pins))

    def _with_newest(self, pins: dict[str, str]) -> dict[str, str]:
        """The versions with the newest releases of the day if these need only wheels and pure sdists.

        uv would go back to an older release instead, perhaps to one that states no requirements yet.
        """
        for key in [key for key in self.requirements if key in pins and key not in {*self.sdists, *self.preferred}]:
            newest = max((v for v in self._early(key) if not v.is_prerelease), default=Version("0"))
            if newest > Version(pins[key]):
                pins = self._at_least(key, newest) or pins
        return pins

    def _early(self, key: str) -> list[Version]:
        return [version for version, file in self.fitting(key) if not (self.time and file.uploaded > self.time)]

    def _at_least(self, key: str, version: Version) -> dict[str, str]:
        """The versions with at least this release of a project. Empty if they need more than wheels and pure sdists."""
        before = dict(self.sdists), dict(self.requirements), dict(self.questions)
        self.requirements[key] = Requirement(f"{with_extras(self.requirements[key])}>={version}")
        for _ in range(_SDISTS):
            try:
                pins = self.ask(self.requested())
            except uv.Unsatisfied as error:
                if not any([self.use_pure(name) for name in named(error) if name != key and not self._early(name)]):
                    break
            else:
                # Without another sdist, some other requirement would go back.
                if self.unfit(pins) or self.sdists == before[0]:
                    break
                return pins
        self.sdists, self.requirements, self.questions = before
        return {}

    def _with_optional(self, pins: dict[str, str]) -> list[str]:
        """Add the optional projects to `pins`; return those that do not fit, each with a question."""

        def ask(fixed: Mapping[str, str], keys: Sequence[str]) -> dict[str, str]:
            exact = [f"{name}=={version}" for name, version in fixed.items()]
            for _ in range(_SDISTS):
                try:
                    added = self.ask([*exact, *self.requested(fixed), *(str(bare(self.optional[key])) for key in keys)])
                except uv.Unsatisfied as error:
                    if len(keys) > 1 or not any(map(self.use_pure, named(error))):
                        raise
                else:
                    if not self.unfit(added):
                        return added
            raise uv.Unsatisfied("no wheel fits")

        left_out = add_optional(pins, [key for key in self.optional if not present(key, pins)], ask)
        for key in left_out:
            text = f"no wheel of {self.choice(key).value} fits the others"
            self.question(key, f"{text}; only tests or an optional part need it, so it is left out")
        return left_out

    def _repair(self, error: uv.Unsatisfied) -> bool:
        """Change one thing that the error names. False if nothing is left to change."""
        requirements = [valid_requirement(text) for text in (*error.projects, error.where)]
        projects = named(error)
        notify(f"{error.message[:150]}; trying to change that")
        where = requirements[-1]
        self.mentioned = {}
        if where and "==" in error.where:
            self.mentioned = {canonicalize_name(where.name): where.specifier}
        self.check_times(projects)
        repaired = False
        for project in (project for project in projects if project not in self.sdists):
            for step in (self._missing, self.use_sdist, self._later, self._nearest):
                if (project, step.__name__) not in self.tried and step(project):
                    self.tried.add((project, step.__name__))
                    repaired = True
                    break
        if repaired:
            return True
        # Newer wheels conflict with the other packages, so build an older sdist: first of indirect requirements, for
        # which the recipe states no version.
        unusable = [requirement for text in error.unusable if (requirement := valid_requirement(text))]
        candidates = [*unusable, *filter(None, requirements)]
        for requirement in sorted(candidates, key=lambda c: canonicalize_name(c.name) in self.requirements):
            older = (canonicalize_name(requirement.name), "older")
            if requirement.specifier and older not in self.tried and self.use_sdist(older[0], requirement.specifier):
                self.tried.add(older)
                return True
        # The requirements contradict each other: drop one of the authors' exact versions, the least important first.
        loose = [key for key in projects if key in self.requirements and self.requirements[key].specifier]
        loose.sort(key=lambda key: self.is_metadata(key))
        for key in loose:
            return self._forget(key, "it does not fit with the others")
        if self.preferred:
            self.questions["lock"] = Question("the versions of the lock file do not fit, and are not used")
            self.preferred = {}
            return True
        return False

    def _missing(self, project: str) -> bool:
        """Drop a project that the index does not have, such as a misspelt name."""
        if project not in self.requirements or self.listing.files(project) or not self.mirrors.pip.index:
            return False
        self.question(project, f"the index has no {project}, which is left out; is the name right?")
        del self.requirements[project]
        return True

    def _later(self, project: str) -> bool:
        """Take the first wheel after the day if the day has none for this Python."""
        fitting = self.fitting(project)
        if self.time and fitting and project not in self.later and not any(f.uploaded for _, f in fitting):
            self.later[project] = "false"  # uv: no limit on its upload time
            self.question(project, f"the index does not say since when it has {project}; its newest is taken")
            return True
        if not self.time or not fitting or project in self.later or any(f.uploaded <= self.time for _, f in fitting):
            return False
        version, file = next(((v, f) for v, f in fitting if not v.is_prerelease), fitting[0])
        self.later[project] = just_after(file.uploaded)
        text = f"on {self.decision.day} no {project} had a wheel for Python {self.platform.python}; {version} of"
        self.question(project, f"{text} {file.uploaded[:10]} is the first that has")
        return True

    def _nearest(self, project: str) -> bool:
        """Replace an exact version without a usable wheel by the next release that has one, or else the one before."""
        specifier = self.specifier(project)
        if project not in self.requirements or not (stated := exact(specifier)) or self.fitting(project):
            return False
        usable = sorted(
            {v for f in self.listing.files(project) if f.is_wheel and (v := f.version) and f.fits(self.platform)}
        )
        stable = [version for version in usable if not version.is_prerelease] or usable
        if not stable:
            return False
        nearest = next((version for version in stable if version > stated), stable[-1])
        uploads = [f.uploaded for f in self.listing.files(project) if f.version == nearest and f.fits(self.platform)]
        if self.time and min(uploads) > self.time:
            self.later[project] = just_after(max(uploads))
        old = self.requirements[project]
        self.requirements[project] = Requirement(f"{with_extras(old)}=={nearest}")
        text = f"{old} has no wheel for Python {self.platform.python}; {nearest} is the nearest that has"
        self.question(project, text)
        return True

    def _forget(self, key: str, why: str) -> bool:
        old = self.requirements[key]
        self.question(key, f"{self.choice(key).value} is resolved without its version: {why}")
        self.requirements[key] = Requirement(with_extras(old))
        self.preferred.pop(key, None)
        return True
