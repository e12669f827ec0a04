"""Exact versions of everything that a decision requires, as of its day.

If no wheel existed that day for the available Python, take the nearest version that has one, and report it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from reprokit.compat.distributions import bundled_distributions
from reprokit.display import notify
from reprokit.errors import SourceError
from reprokit.importing.decision import Choice, Decision, Question, Versions
from reprokit.importing.optional_versions import add_optional, ahead, present
from reprokit.importing.reading import ReaderProcess
from reprokit.importing.requirement_facts import (
    ANY_TIME,
    bare,
    exact,
    just_after,
    with_extras,
)
from reprokit.importing.requirement_lines import valid_requirement
from reprokit.importing.resolution import DayResolution
from reprokit.importing.system_choice import packages_of
from reprokit.supply.kinds.wheels import uv
from reprokit.supply.kinds.wheels.platform import Platform
from reprokit.supply.kinds.wheels.resolve import IndexUnreachable
from reprokit.supply.mirrors.places import Mirrors

_ATTEMPTS = 25
# Sdists that one optional requirement may take.
_SDISTS = 4


def versions_of(decision: Decision, platform: Platform, mirrors: Mirrors, time: str) -> Versions:
    """Resolve a decision. Files count that were uploaded by `time` (ISO 8601; empty for all).

    Raises SourceError if no set of versions fits, or the index does not answer.
    """
    with ReaderProcess() as reader:
        return _VersionSearch(decision, platform, mirrors, time, reader).run()


def named(error: uv.Unsatisfied) -> list[str]:
    """The projects that an error names."""
    found = [valid_requirement(text) for text in (*error.projects, error.where)]
    return list(dict.fromkeys(str(canonicalize_name(one.name)) for one in found if one))


class _VersionSearch(DayResolution):
    """Changes what does not resolve, one thing at a time."""

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
        """The versions of what the repository requires. Raises SourceError if none are found."""
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
        """Take the same releases from the other indexes, which have no builds such as `+cu118`."""
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
        """The versions with the newest releases of the day if these need no more than pure sdists beside wheels.

        uv goes back to an older release instead, of which there may be one from before all its requirements.
        """
        for key in [key for key in self.requirements if key in pins and key not in {*self.sdists, *self.preferred}]:
            newest = max((v for v in self._early(key) if not v.is_prerelease), default=Version("0"))
            if newest > Version(pins[key]):
                pins = self._at_least(key, newest) or pins
        return pins

    def _early(self, key: str) -> list[Version]:
        return [version for version, file in self.fitting(key) if not (self.time and file.uploaded > self.time)]

    def _at_least(self, key: str, version: Version) -> dict[str, str]:
        """The versions if a project has at least this release. Empty if that takes more than building pure sdists."""
        before = dict(self.sdists), dict(self.requirements), dict(self.questions)
        self.requirements[key] = Requirement(f"{with_extras(self.requirements[key])}>={version}")
        for _ in range(_SDISTS):
            try:
                pins = self.ask(self.requested())
            except uv.Unsatisfied as error:
                if not any([self.use_pure(one) for one in named(error) if one != key and not self._early(one)]):
                    break
            else:
                # Without another sdist it is a trade: some other requirement would go back.
                if self.unfit(pins) or self.sdists == before[0]:
                    break
                return pins
        self.sdists, self.requirements, self.questions = before
        return {}

    def _with_optional(self, pins: dict[str, str]) -> list[str]:
        """Add what only an optional part needs to `pins`; what does not fit is returned, and is a question."""

        def ask(fixed: Mapping[str, str], keys: Sequence[str]) -> dict[str, str]:
            exact = [f"{name}=={version}" for name, version in fixed.items()]
            for _ in range(_SDISTS):
                try:
                    found = self.ask([*exact, *self.requested(fixed), *(str(bare(self.optional[key])) for key in keys)])
                except uv.Unsatisfied as error:
                    if len(keys) > 1 or not any(map(self.use_pure, named(error))):
                        raise
                else:
                    if not self.unfit(found):
                        return found
            raise uv.Unsatisfied("no wheel fits")

        left_out = add_optional(pins, [key for key in self.optional if not present(key, pins)], ask)
        for key in left_out:
            text = f"no wheel of {self.choice(key).value} fits the others"
            self.question(key, f"{text}; only tests or an optional part need it, so it is left out")
        return left_out

    def _repair(self, error: uv.Unsatisfied) -> bool:
        """Change one thing that the error names. False if nothing is left to change."""
        found = [valid_requirement(text) for text in (*error.projects, error.where)]
        projects = named(error)
        notify(f"{error.message[:150]}; trying to change that")
        where = found[-1]
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
        # Newer wheels conflict with the other packages, so build an older sdist: first of what others require, whose
        # version nobody here can choose.
        unusable = [one for text in error.unusable if (one := valid_requirement(text))]
        named_ones = [*unusable, *filter(None, found)]
        for one in sorted(named_ones, key=lambda one: canonicalize_name(one.name) in self.requirements):
            older = (canonicalize_name(one.name), "older")
            if one.specifier and older not in self.tried and self.use_sdist(older[0], one.specifier):
                self.tried.add(older)
                return True
        # They contradict each other: give up the least of the authors' exact versions.
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
        """Leave out what the index does not have at all, such as a name with a typing error."""
        if project not in self.requirements or self.listing.files(project) or not self.mirrors.pip.index:
            return False
        self.question(project, f"the index has no {project}, which is left out; is the name right?")
        del self.requirements[project]
        return True

    def _later(self, project: str) -> bool:
        """Take the first wheel after the day if the day has none for this Python."""
        fitting = self.fitting(project)
        if self.time and fitting and project not in self.later and not any(f.uploaded for _, f in fitting):
            self.later[project] = "false"  # uv: whatever its time
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
        self.question(project, text)
        return True

    def _forget(self, key: str, why: str) -> bool:
        old = self.requirements[key]
        self.question(key, f"{self.choice(key).value} is resolved without its version: {why}")
        self.requirements[key] = Requirement(with_extras(old))
        self.preferred.pop(key, None)
        return True
