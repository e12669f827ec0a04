"""Resolve wheels and sdists with uv for the image's Python and platform."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

from reprokit.errors import SourceError
from reprokit.recipe.model import Sdist
from reprokit.redact import redact
from reprokit.supply.fetch.measure import Measure
from reprokit.supply.guard import guarded
from reprokit.supply.kinds.kind import Moved
from reprokit.supply.kinds.wheels import uv
from reprokit.supply.kinds.wheels.pip import PipSettings, nearest_versions, versions
from reprokit.supply.kinds.wheels.platform import Platform
from reprokit.supply.lock.model import Distribution
from reprokit.supply.store import Store, key_of
from reprokit.untrusted.documents import understood

if TYPE_CHECKING:
    from reprokit.supply.mirrors.places import Mirrors

_AT_ONCE = 8


def lock_wheels(
    requirements: Sequence[str],
    sdists: Sequence[Sdist],
    platform: Platform,
    indexes: Sequence[str],
    mirrors: Mirrors,
    store: Store,
    say: Callable[[str], None] = lambda line: None,
    keep: Sequence[Distribution] = (),
    update: Collection[str] = (),
) -> tuple[Distribution, ...]:
    """One file of every package that the requirements need, sorted by name.

    The user's own indexes come first; the recipe's `indexes` are used only if those lack a version. Entries of `keep`
    stay where they fit, except for the packages of `update`. A file is downloaded if no index states its checksum.
    Raises SourceError naming the requirement and the nearest versions, or the index that failed.
    """
    if not requirements and not sdists:
        return ()
    freed = {canonicalize_name(name) for name in update}
    kept = {wheel.name: wheel for wheel in keep if wheel.name not in freed}
    resolution = _Resolution(requirements, sdists, platform, {name: wheel.version for name, wheel in kept.items()}, say)
    packages = resolution.packages(mirrors, indexes)
    tags = supported(platform)
    with Measure(store, mirrors.settings, say) as measure, ThreadPoolExecutor(_AT_ONCE) as pool:

        def locked(package: uv.Package) -> Distribution:
            with understood("an index's answer", package.name):
                return chosen(package)

        def chosen(package: uv.Package) -> Distribution:
            earlier = kept.get(canonicalize_name(package.name))
            if earlier and Version(earlier.version) == Version(package.version) and _rank(earlier.file, tags):
                return earlier
            return _measured(package, best(package, tags, platform), measure)

        return tuple(sorted(pool.map(locked, packages), key=lambda found: found.name))


def resolve_wheels(
    requirements: Sequence[str],
    sdists: Sequence[Sdist],
    platform: Platform,
    indexes: Sequence[str],
    mirrors: Mirrors,
    store: Store,
    say: Callable[[str], None] = lambda line: None,
) -> tuple[Distribution, ...]:
    """The wheels for requirements that have no lock; a repeated call asks no index.

    Raises SourceError, see `lock_wheels`.
    """
    key = key_of([sorted(set(requirements)), [s.model_dump() for s in sdists], asdict(platform), list(indexes)])
    known = store.remembered("wheels", key)
    if known is None:
        found = lock_wheels(requirements, sdists, platform, indexes, mirrors, store, say)
        known = [wheel.model_dump() for wheel in found]
        store.remember("wheels", key, known)
    return tuple(Distribution.model_validate(wheel) for wheel in known)


def fetch_wheels(
    wheels: Sequence[Distribution], mirrors: Mirrors, store: Store, say: Callable[[str], None] = lambda line: None
) -> None:
    """Fetch these wheels into the store. Raises SourceError."""
    from reprokit.supply.fetch.pool import fetch_all

    fetch_all([w.locked_input() for w in wheels], store, mirrors, say=say, settings=lambda: mirrors.settings)


def moved_wheels(
    locked: Sequence[Distribution],
    requirements: Sequence[str],
    sdists: Sequence[Sdist],
    platform: Platform,
    indexes: Sequence[str],
    mirrors: Mirrors,
    say: Callable[[str], None] = lambda line: None,
) -> list[Moved]:
    """Packages that indexes no longer have as locked, and those that a new lock would replace, sorted.

    Newer versions that the recipe's pins forbid are ignored. Raises SourceError where an index fails.
    """
    found: set[Moved] = set()
    kept = {wheel.name: wheel.version for wheel in locked}
    try:
        same = _Resolution(requirements, sdists, platform, kept, say).packages(mirrors, indexes)
        fresh = _Resolution(requirements, sdists, platform, {}, say).packages(mirrors, indexes)
    except uv.Unsatisfied as error:
        name = canonicalize_name(error.where.partition("==")[0])
        if name not in kept:
            raise
        return [Moved("wheels", name, kept[name], "", "vanished")]
    there: dict[str, uv.Package] = {canonicalize_name(package.name): package for package in same}
    newest: dict[str, str] = {canonicalize_name(package.name): package.version for package in fresh}
    for wheel in locked:
        if wheel.name not in there:
            continue  # no longer required: the lock is stale
        package, version = there[wheel.name], newest.get(wheel.name, wheel.version)
        checksums = {file.sha256 for file in package.files if file.file == wheel.file}
        if package.version != wheel.version or not checksums:
            found.add(Moved("wheels", wheel.name, wheel.version, package.version, "vanished"))
        elif not {wheel.sha256, ""} & checksums:
            found.add(Moved("wheels", wheel.name, wheel.sha256, checksums.pop(), "changed"))
        elif package.yanked:
            found.add(Moved("wheels", wheel.name, wheel.version, version, "yanked"))
        elif version != wheel.version:
            found.add(Moved("wheels", wheel.name, wheel.version, version, "newer"))
    return sorted(found)


class _Resolution:
    """One resolution: with the user's indexes, then with the recipe's too."""

    def __init__(
        self,
        requirements: Sequence[str],
        sdists: Sequence[Sdist],
        platform: Platform,
        preferred: Mapping[str, str],
        say: Callable[[str], None],
    ) -> None:
        self.requirements = sorted(set(requirements))
        self.sdists = {sdist.package: sdist.requires for sdist in sdists}
        self.platform, self.preferred, self.say = platform, preferred, say

    def packages(self, mirrors: Mirrors, indexes: Sequence[str]) -> list[uv.Package]:
        try:
            return self._asked(mirrors.pip, (), {})
        except uv.Unsatisfied as error:
            if not indexes:
                raise _with_neighbours(error, self.platform, indexes, {}) from None
            self.say(f"{error.message}; trying the recipe's indexes too")
            missing = error.message
        with guarded(mirrors.store, mirrors.own) as variables:
            try:
                return self._asked(mirrors.pip, indexes, variables)
            except uv.Unsatisfied as error:
                raise _with_neighbours(error, self.platform, indexes, variables) from None
            except uv.Unreachable as error:
                for index in indexes:
                    if _belongs(error.where, index):
                        why = error.message.removeprefix("a package index ")
                        raise SourceError(f"{missing}, and the recipe's own index {why}", index) from None
                raise

    def _asked(self, settings: PipSettings, indexes: Sequence[str], variables: Mapping[str, str]) -> list[uv.Package]:
        """Resolve, without unreachable indexes of the user if that is possible."""
        skipped: uv.Unreachable | None = None
        while True:
            try:
                return uv.resolve(
                    self.requirements, self.platform, settings, indexes, self.sdists, self.preferred, variables
                )
            except uv.Unsatisfied:
                if skipped:
                    raise skipped from None
                raise
            except uv.Unreachable as error:
                rest = _without(settings, error.where)
                if rest == settings or not (rest.indexes or rest.find_links):
                    raise
                skipped, settings = skipped or error, rest
                self.say(f"{error.message} ({error.where}); continuing without it")


def _without(settings: PipSettings, address: str) -> PipSettings:
    """The settings without the index of this address."""
    if settings.index and _belongs(address, settings.index):
        return replace(settings, index="", own_index=False)
    return replace(settings, extra_indexes=tuple(i for i in settings.extra_indexes if not _belongs(address, i)))


def _belongs(address: str, index: str) -> bool:
    return f"{address.rstrip('/')}/".startswith(f"{redact(index).rstrip('/')}/")


def _with_neighbours(
    error: uv.Unsatisfied, platform: Platform, indexes: Sequence[str], variables: Mapping[str, str]
) -> uv.Unsatisfied:
    """The error with the nearest versions that exist."""
    if error.where and not error.hint:
        near = nearest_versions(error.where, versions(error.where, platform, indexes, variables))
        if near:
            error.hint = f"nearest versions that exist: {', '.join(near)}"
    return error


def supported(platform: Platform) -> dict[Tag, int]:
    """The wheel tags of the image's pip with their rank: lower is better."""
    version = tuple(int(part) for part in platform.python.split(".")[:2])
    interpreter = f"cp{version[0]}{version[1]}"
    # Before 3.8, the ABI tag ends in `m` for builds with pymalloc, as of every distribution.
    abi = interpreter + ("m" if version < (3, 8) else "")
    tags = [
        *cpython_tags(version, [abi], platform.tags()),
        *compatible_tags(version, interpreter, platform.tags()),
    ]
    return {tag: place for place, tag in enumerate(tags)}


def best(package: uv.Package, tags: dict[Tag, int], platform: Platform) -> uv.IndexFile:
    """The file that pip would choose: the wheel with the best tag and highest build number, else the sdist."""
    ranked = []
    for file in package.files:
        rank = _rank(file.file, tags)
        if rank is not None:
            ranked.append((*rank, file.file, file))
    if not ranked:
        here = f"Python {platform.python} and glibc {platform.glibc}"
        raise SourceError(f"no file of {package.name}=={package.version} fits {here}", package.name)
    return max(ranked, key=lambda entry: entry[:-1])[-1]


def _rank(file: str, tags: dict[Tag, int]) -> tuple[int, tuple[int, str] | tuple[()]] | None:
    """A rank, higher is better; None if the file does not fit."""
    if not file.endswith(".whl"):
        return -len(tags), ()
    try:
        _, _, build, of_file = parse_wheel_filename(file)
    except InvalidWheelFilename:
        return None
    places = [tags[tag] for tag in of_file if tag in tags]
    return (-min(places), build) if places else None


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
