"""Resolve wheels and sdists with uv for the image's Python and platform."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, TypeVar

from packaging.requirements import InvalidRequirement, Requirement
from packaging.tags import Tag
from packaging.utils import canonicalize_name, parse_sdist_filename
from packaging.version import Version

from reprokit.compat.evaluate import bounds, package_errors
from reprokit.compat.facts import bundled
from reprokit.compat.model import Stack
from reprokit.compat.stack import of_project, resolved_wheels, stack_of
from reprokit.config import mirror_hint
from reprokit.display import notify
from reprokit.errors import NoConnection, SourceError
from reprokit.recipe.fields import exact_version
from reprokit.recipe.model import Sdist, Variant
from reprokit.redact import redact
from reprokit.supply.fetch.download import Measure
from reprokit.supply.fetch.http import Client, Refusal
from reprokit.supply.gateway import guarded
from reprokit.supply.kinds.kind import UpstreamChange
from reprokit.supply.kinds.wheels import uv
from reprokit.supply.kinds.wheels.listing import ListedFile, Listing, index_requirements, sdist_for
from reprokit.supply.kinds.wheels.pip import PipSettings, nearest_versions, versions
from reprokit.supply.kinds.wheels.platform import Platform, WheelRequest, parsed_wheel, supported
from reprokit.supply.kinds.wheels.projects import with_stubs
from reprokit.supply.lock.model import Distribution
from reprokit.supply.store import key_of
from reprokit.untrusted.documents import understood

if TYPE_CHECKING:
    from reprokit.supply.mirrors import Mirrors


_AT_ONCE = 8
_MOST_SDISTS = 50
T = TypeVar("T")


def lock_wheels(
    request: WheelRequest, mirrors: Mirrors, keep: Sequence[Distribution] = (), update: Collection[str] = ()
) -> tuple[Distribution, ...]:
    """One file of every package that the requirements need, sorted by name.

    Entries of `keep` stay if they fit, except for the packages of `update`. A file is downloaded if no index states
    its checksum. Raises SourceError naming the requirement and the nearest versions, or the index that failed.
    """
    if not request.requirements and not request.sdists:
        return ()
    freed = {canonicalize_name(name) for name in update}
    kept = {(wheel.name, wheel.build_only): wheel for wheel in keep if wheel.name not in freed}
    tags = supported(request.platform)

    def lock(packages: Sequence[uv.Package], build_only: bool) -> Iterator[Distribution]:
        def locked(package: uv.Package) -> Distribution:
            name = canonicalize_name(package.name)
            with understood("an index's answer", package.name):
                # As for pip, requirements files do not list build requirements.
                allowed = None if build_only else request.checksums.get(name)
                earlier = kept.get((name, build_only))
                fits = earlier and Version(earlier.version) == Version(package.version) and _rank(earlier.file, tags)
                if earlier and fits and (allowed is None or earlier.sha256 in allowed):
                    return earlier
                distribution = _measured(package, best(_allowed(package, allowed), tags, request.platform), measure)
                if allowed is not None and distribution.sha256 not in allowed:
                    raise SourceError(f"{distribution.file} has another sha256 than its requirements file allows", name)
                return distribution.model_copy(update={"build_only": build_only})

        return pool.map(locked, packages)

    def preferred(build_only: bool) -> dict[str, str]:
        return {name: wheel.version for (name, only), wheel in kept.items() if only is build_only}

    with Measure(mirrors) as measure, ThreadPoolExecutor(_AT_ONCE) as pool:
        with with_stubs(request, mirrors) as (ready, builds):
            try:
                packages, built = _with_sdists(ready, mirrors, preferred(False))
            except uv.Unsatisfied as error:
                raise _with_wheels(error, request, mirrors) from None
            by_file = {wheel.file: wheel for wheel in lock(packages, False)}
        for project, needed in [*(("", requirements) for requirements in builds), *built.items()]:
            tools = replace(request, requirements=needed, sdists=())
            try:
                more = resolve_versions(tools, mirrors, preferred(True))
            except uv.Unsatisfied as error:
                raise _with_wheels(_unbuilt(project, error, request), request, mirrors) if project else error from None
            by_file = {**{wheel.file: wheel for wheel in lock(more, True)}, **by_file}
    return tuple(sorted(by_file.values(), key=lambda wheel: (wheel.name, wheel.file)))


def _allowed(package: uv.Package, allowed: Collection[str] | None) -> uv.Package:
    """Keep files with an allowed checksum, and files whose checksum is unknown."""
    if allowed is None:
        return package
    files = tuple(file for file in package.files if not file.sha256 or file.sha256 in allowed)
    if not files:
        where = f"{package.name}=={package.version}"
        raise SourceError(f"no file of {where} has a sha256 that its requirements file allows", package.name)
    return replace(package, files=files)


def _with_sdists(
    request: WheelRequest, mirrors: Mirrors, preferred: Mapping[str, str]
) -> tuple[list[uv.Package], dict[str, list[str]]]:
    """The packages, with an sdist if a project has no wheel; and the build requirements of these, by NAME==VERSION."""
    listing = Listing(mirrors)
    chosen: dict[str, ListedFile] = {}
    sdists = list(request.sdists)
    while True:
        try:
            packages = resolve_versions(replace(request, sdists=sdists), mirrors, preferred)
        except uv.Unsatisfied as error:
            file = sdist_for([error.where, *error.projects], request, listing, chosen) if request.builds else None
            if file is None or len(chosen) == _MOST_SDISTS:
                raise
            version = str(file.version)
            name = parse_sdist_filename(file.filename)[0]
            requires = listing.requires(file)
            if requires is None:
                notify(f"the sdist {name} {version} does not state what it needs: write that under `wheels` too")
            chosen[name] = file
            sdists.append(Sdist(package=f"{name}=={version}", requires=index_requirements(requires or (), name)))
        else:
            return packages, {f"{name}=={file.version}": listing.build_requires(file) for name, file in chosen.items()}


def merged(sets: Mapping[str, Sequence[Distribution]]) -> tuple[Distribution, ...]:
    """The sets of blocks as one list: each file once, with the blocks that take it in.

    A file appears twice if one block installs it and another only builds with it.
    """
    by_key: dict[tuple[str, str, str, bool], Distribution] = {}
    for block, wheels in sets.items():
        for wheel in wheels:
            key = (wheel.name, wheel.file, wheel.sha256, wheel.build_only)
            blocks = by_key[key].blocks if key in by_key else ()
            by_key[key] = wheel.model_copy(update={"blocks": (*blocks, block)})
    return tuple(by_key[key] for key in sorted(by_key))


def resolve_wheels(request: WheelRequest, mirrors: Mirrors) -> tuple[Distribution, ...]:
    """The wheels for requirements that have no lock; a repeated call asks no index. Raises as `lock_wheels`."""
    sdists = [sdist.model_dump() for sdist in request.sdists]
    where = [asdict(request.platform), list(request.indexes), asdict(request.as_of)]
    checksums = [request.checksums] if request.checksums else []
    constraints = [{"constraints": sorted(request.constraints)}] if request.constraints else []
    key = key_of([sorted(set(request.requirements)), sdists, *where, *checksums, *constraints])
    entries = mirrors.store.remembered("wheels", key)
    if entries is None:
        entries = [wheel.model_dump(exclude={"blocks"}) for wheel in lock_wheels(request, mirrors)]
        mirrors.store.remember("wheels", key, entries)
    return tuple(Distribution.model_validate(wheel) for wheel in entries)


def changed_wheels(locked: Sequence[Distribution], request: WheelRequest, mirrors: Mirrors) -> list[UpstreamChange]:
    """Packages that indexes no longer have as locked, and those that a new lock would replace, sorted.

    Newer versions that the recipe's pins forbid are ignored. Raises SourceError if an index fails.
    """
    changes: set[UpstreamChange] = set()
    locked = [wheel for wheel in locked if not wheel.build_only]
    kept = {wheel.name: wheel.version for wheel in locked}
    try:
        with with_stubs(request, mirrors) as (ready, _):
            same, fresh = (_with_sdists(ready, mirrors, preferred)[0] for preferred in (kept, {}))
    except uv.Unsatisfied as error:
        name = canonicalize_name(error.where.partition("==")[0])
        if name not in kept:
            raise
        return [UpstreamChange("wheels", name, kept[name], "", "vanished")]
    available: dict[str, uv.Package] = {canonicalize_name(package.name): package for package in same}
    newest: dict[str, str] = {canonicalize_name(package.name): package.version for package in fresh}
    for wheel in locked:
        if wheel.name not in available:
            continue  # no longer required: the lock is stale
        package, version = available[wheel.name], newest.get(wheel.name, wheel.version)
        checksums = {file.sha256 for file in package.files if file.file == wheel.file}
        if package.version != wheel.version or not checksums:
            changes.add(UpstreamChange("wheels", wheel.name, wheel.version, package.version, "vanished"))
        elif not {wheel.sha256, ""} & checksums:
            changes.add(UpstreamChange("wheels", wheel.name, wheel.sha256, checksums.pop(), "changed"))
        elif package.yanked:
            changes.add(UpstreamChange("wheels", wheel.name, wheel.version, version, "yanked"))
        elif version != wheel.version:
            changes.add(UpstreamChange("wheels", wheel.name, wheel.version, version, "newer"))
    return sorted(changes)


class IndexUnreachable(NoConnection):
    """The recipe's `indexes`, which may have packages that the user's lack, cannot be reached."""

    def __init__(self, missing: uv.Unsatisfied, indexes: Mapping[str, str], requirements: Sequence[str]) -> None:
        self.indexes = tuple(indexes)
        index, why = next(iter(indexes.items()))
        message = f"the index cannot be reached: {why}; without it, {missing.message}"
        others = filter(None, map(_other_torch, requirements))
        super().__init__(message, index, "; ".join([mirror_hint("wheels"), *others]))


def resolve_versions(request: WheelRequest, mirrors: Mirrors, preferred: Mapping[str, str]) -> list[uv.Package]:
    """The packages from the user's indexes, or if these do not suffice from the recipe's too.

    Versions of `preferred` (by name) win if they fit. Raises SourceError, see `lock_wheels`; IndexUnreachable if
    they do not suffice and an index of the recipe cannot be reached.
    """
    own = replace(request, indexes=())
    try:
        return _resolved(own, mirrors, preferred, {})
    except uv.Unsatisfied as error:
        if not request.indexes:
            raise _with_neighbours(error, own, {}, mirrors) from None
        missing = error
    unreachable = {index: why for index in request.indexes if (why := no_connection(index, mirrors))}
    request = replace(request, indexes=[index for index in request.indexes if index not in unreachable])
    if not request.indexes:
        raise IndexUnreachable(missing, unreachable, own.requirements)
    notify(f"{missing.message}; trying the recipe's indexes too")
    with guarded(mirrors, mirrors.own) as variables:
        try:
            return _resolved(request, mirrors, preferred, variables)
        except uv.Unsatisfied as error:
            if unreachable:
                raise IndexUnreachable(error, unreachable, own.requirements) from None
            raise _with_neighbours(error, request, variables, mirrors) from None
        except uv.Unreachable as error:
            for index in request.indexes:
                if _belongs(error.where, index):
                    why = error.message.removeprefix("a package index could not be reached: ")
                    raise IndexUnreachable(missing, {index: why}, own.requirements) from None
            raise


def no_connection(index: str, mirrors: Mirrors) -> str:
    """Why the index cannot be reached, empty if it can. uv itself retries an index that is down for 7 s."""
    lost = mirrors.store.lost
    if index.startswith("file:") or lost.has_answered(index):
        return ""
    with Client(mirrors.settings) as client:
        while not lost.why(index):
            try:
                with client.ask(index, method="HEAD"):
                    return ""
            except Refusal as refusal:
                if not refusal.unreachable:
                    return ""
    return lost.why(index)


def _other_torch(requirement: str) -> str:
    """The build that PyPI has of a required build of torch, such as `torch==2.7.0+cu118`."""
    public, _, local = requirement.removeprefix("torch==").partition("+")
    release = bundled().torch.releases.get(public) if requirement.startswith("torch==") else None
    if not local or not release or not release.default:
        return ""
    return f"PyPI's torch {public} is built for CUDA {release.default}: pin {public} to use it"


def _resolved(
    request: WheelRequest, mirrors: Mirrors, preferred: Mapping[str, str], variables: Mapping[str, str]
) -> list[uv.Package]:
    """Resolve, without unreachable indexes of the user if that is possible."""
    skipped: uv.Unreachable | None = None
    settings, lost = mirrors.pip, mirrors.store.lost
    for index in settings.indexes:
        if why := lost.why(index):
            skipped = uv.Unreachable(f"a package index could not be reached: {why}", redact(index))
            settings = _without(settings, redact(index))
    if skipped and not (settings.indexes or settings.find_links):
        raise skipped
    while True:
        try:
            return uv.resolve(request, settings, preferred, variables)
        except uv.Unsatisfied:
            if skipped:
                raise skipped from None
            raise
        except uv.Unreachable as error:
            others = _without(settings, error.where)
            if others == settings or not (others.indexes or others.find_links):
                raise
            if not error.connected:
                lost.lose(error.where, error.message.removeprefix("a package index could not be reached: "))
            skipped, settings = skipped or error, others
            notify(f"{error.message} ({error.where}); continuing without it")


def _without(settings: PipSettings, address: str) -> PipSettings:
    """The settings without the index of this address."""
    if settings.index and _belongs(address, settings.index):
        return replace(settings, index="", own_index=False)
    return replace(settings, extra_indexes=tuple(i for i in settings.extra_indexes if not _belongs(address, i)))


def _belongs(address: str, index: str) -> bool:
    return f"{address.rstrip('/')}/".startswith(f"{redact(index).rstrip('/')}/")


def _with_neighbours(
    error: uv.Unsatisfied, request: WheelRequest, variables: Mapping[str, str], mirrors: Mirrors
) -> uv.Unsatisfied:
    """The error with the projects that are too young for the request's day, or with the nearest versions that exist."""
    if young := _too_young(error, request, mirrors):
        error.message, error.hint = young
    elif error.where and not error.hint:
        near = nearest_versions(error.where, versions(error.where, request.platform, request.indexes, variables))
        if near:
            error.hint = f"nearest versions that exist: {', '.join(near)}"
    return error


def _too_young(error: uv.Unsatisfied, request: WheelRequest, mirrors: Mirrors) -> tuple[str, str] | None:
    """Message and hint if the base's Python or a project that the error names is younger than the request's day."""
    time, python = request.as_of.time, request.platform.python
    if not time:
        return None
    day, index, listing = time[:10], redact(mirrors.pip.index), Listing(mirrors)
    released = bundled().released.python.get(".".join(python.split(".")[:2]), "")
    base = f"the base's Python {python} was released on {released}" if released > day else ""
    hint = "take a later day" + (", or a base with an older Python" if base else "")
    for text in filter(None, (error.where, *error.projects)):
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            continue
        files = [
            file
            for file in listing.files(requirement.name)
            if file.fits(request.platform)
            and file.version
            and requirement.specifier.contains(file.version, prereleases=True)
        ]
        first = min((file.uploaded for file in files if file.uploaded), default="")
        if files and not first:
            fault = f"{index} gives no upload times, so it has no {requirement} of {day}"
            return fault, "use an index with upload times (PEP 700), or `--as-of now`"
        if first > time:
            fault = f"{index} has no {requirement} of {day} for Python {python}: the first was uploaded on {first[:10]}"
            return "; ".join(filter(None, [fault, base])), hint
    return (f"{base}, so no index has a wheel for it of {day}", hint) if base else None


def _unbuilt(project: str, error: uv.Unsatisfied, request: WheelRequest) -> uv.Unsatisfied:
    """The error that a project has no wheel, and neither has a build requirement of its sdist."""
    why = f"what builds its sdist cannot be installed: {error.message}"
    unbuilt = uv.Unsatisfied(f"no wheel of {project} for Python {request.platform.python}, and {why}", project)
    unbuilt.unusable = (project,)
    return unbuilt


def _with_wheels(error: uv.Unsatisfied, request: WheelRequest, mirrors: Mirrors) -> uv.Unsatisfied:
    """The error that a release has no usable wheel, with the nearest releases that have one."""
    if error.where in error.unusable:
        try:
            files = Listing(mirrors).files(Requirement(error.where).name)
        except (InvalidRequirement, SourceError):
            return error
        fitting = {f.version for f in files if f.is_wheel and f.version and f.fits(request.platform)}
        near = nearest_versions(error.where, [str(v) for v in fitting if not v.is_prerelease])
        named = f"nearest versions that have one: {', '.join(near)}" if near else ""
        error.hint = "; or ".join(filter(None, [named, error.hint]))
    return error


def best(package: uv.Package, tags: Mapping[Tag, int], platform: Platform) -> uv.IndexFile:
    """The file that pip would choose: the wheel with the best tag and highest build number, else the sdist."""
    ranked = []
    for file in package.files:
        rank = _rank(file.file, tags)
        if rank is not None:
            ranked.append((*rank, file.file, file))
    if not ranked:
        target = f"Python {platform.python} and glibc {platform.glibc}"
        raise SourceError(f"no file of {package.name}=={package.version} fits {target}", package.name)
    return max(ranked, key=lambda entry: entry[:-1])[-1]


def _rank(file: str, tags: Mapping[Tag, int]) -> tuple[int, tuple[int, str] | tuple[()]] | None:
    """A rank, higher is better; None if the file does not fit."""
    if not file.endswith(".whl"):
        return -len(tags), ()
    wheel = parsed_wheel(file)
    ranks = [tags[tag] for tag in wheel[3] if tag in tags] if wheel else []
    return (-min(ranks), wheel[2]) if wheel and ranks else None


def _measured(package: uv.Package, file: uv.IndexFile, measure: Measure) -> Distribution:
    sha256, size = file.sha256, file.size
    if not sha256 or size is None:
        try:
            sha256, size = measure([file.url], sha256)
        except SourceError as error:
            where = f"{package.name}=={package.version}"
            raise SourceError(f"{where}: {error.message}", error.where, error.hint) from None
    return Distribution(
        name=canonicalize_name(package.name), version=package.version, file=file.file, sha256=sha256, size=size
    )


def within_facts(resolve: Callable[[Sequence[str]], T], stack: Callable[[T], Stack], requirements: Sequence[str]) -> T:
    """The result of `resolve` with constraints that avoid errors between its packages, as far as possible.

    Packages with an exact version in `requirements` keep it. Every constraint that counts leaves fewer errors.
    """
    facts, fixed = bundled(), _exact(requirements)
    constraints: list[str] = []
    resolution = resolve(constraints)
    while True:
        now = stack(resolution)
        for bound, finding in bounds(facts, now, fixed):
            try:
                other = resolve([*constraints, bound])
            except SourceError:  # also of an index that only this bound needs
                continue
            if len(package_errors(facts, stack(other))) < len(package_errors(facts, now)):
                notify(f"{bound} is required too: {finding.reason}")
                constraints.append(bound)
                resolution = other
                break
        else:
            return resolution


def wheels_within_facts(
    variant: Variant, request: WheelRequest, resolve: Callable[[WheelRequest], tuple[Distribution, ...]]
) -> tuple[Distribution, ...]:
    """The result of `resolve` for a request, within the facts on the variant's pins and wheels."""

    def bounded(constraints: Sequence[str]) -> tuple[Distribution, ...]:
        return resolve(replace(request, constraints=[*request.constraints, *constraints]))

    def stack(wheels: tuple[Distribution, ...]) -> Stack:
        return stack_of(variant, resolved=resolved_wheels(installed(wheels), ""))

    return within_facts(bounded, stack, request.requirements)


def installed(wheels: Sequence[Distribution]) -> list[tuple[str, str]]:
    """Project and version of the wheels that an image gets. Facts do not cover builds of sdists."""
    return [(w.name, w.version) for w in wheels if not w.build_only and w.file.endswith(".whl")]


def _exact(requirements: Sequence[str]) -> Collection[str]:
    parsed = map(Requirement, requirements)
    return {name for required in parsed if exact_version(required) and (name := of_project(required.name))}
