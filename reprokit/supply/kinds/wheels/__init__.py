"""Wheels and sdists, resolved by uv for the image's Python."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from reprokit.supply.kinds.kind import InputRequest, InputServer, Kind, Moved, SbomEntry, Tools, refs_of
from reprokit.supply.locked_input import LockedInput

if TYPE_CHECKING:
    from reprokit.supply.lock.model import Distribution, VariantLock
    from reprokit.supply.mirrors.places import Mirrors


class Wheels(Kind):
    def asked(self, request: InputRequest) -> list[Any]:
        target, platform = request.target, request.platform
        if platform is None or not (target.requirements or target.variant.sdists):
            return []
        sdists = [sdist.model_dump() for sdist in target.variant.sdists]
        where = [platform.python, platform.glibc, platform.machine]
        checksums = [target.checksums] if target.checksums else []
        alone = [use.spec.name for use in target.uses if use.spec.alone]
        return [[target.requirements, sdists, target.variant.wheel_indexes, where, *checksums], alone]

    def follows(self, old: VariantLock, sections: Mapping[str, Any]) -> bool:
        """Wheels come from the locked commits of tags and branches."""
        return refs_of(sections["git"]) != refs_of(old.git)

    def singles(self, lock: VariantLock | None) -> Collection[str]:
        return {wheel.name for wheel in lock.wheels} if lock else ()

    def resolve(self, request: InputRequest, tools: Tools) -> Mapping[str, Any]:
        from reprokit.supply.kinds.wheels.resolve import lock_wheels, merged
        from reprokit.supply.kinds.wheels.within_facts import wheels_within_facts

        old = request.old.wheels if request.old else ()
        found: dict[str, tuple[Distribution, ...]] = {}
        for block, required in request.wheels.items():
            keep = [*chain(*found.values()), *(w for w in old if block in w.blocks)]
            resolve = partial(lock_wheels, mirrors=tools.mirrors, keep=keep, update=request.freed)
            found[block] = wheels_within_facts(request.target.variant, required, resolve)
        return {"wheels": merged(found)}

    def moved(self, request: InputRequest, tools: Tools, lock: VariantLock) -> Iterable[Moved]:
        from reprokit.supply.kinds.wheels.resolve import moved_wheels

        found: set[Moved] = set()
        for block, required in request.wheels.items():
            if locked := [w for w in lock.wheels if block in w.blocks]:
                found |= set(moved_wheels(locked, required, tools.mirrors))
        return sorted(found)

    def locations(self, locked: LockedInput, mirrors: Mirrors) -> Iterable[str]:
        return mirrors.wheel_index.urls(locked)

    def sbom_entries(self, lock: VariantLock) -> Iterable[SbomEntry]:
        from packageurl import PackageURL

        # A project can be both installed and a tool of a build; then the installed one counts.
        for wheel in sorted(lock.wheels, key=lambda wheel: not wheel.build_only):
            purl = PackageURL("pypi", None, wheel.name, wheel.version)
            yield SbomEntry(purl, wheel.sha256, build_only=wheel.build_only)

    def server(self, entries: Sequence[Distribution]) -> InputServer:
        from reprokit.supply.kinds.wheels.serve import index

        return index(entries)


KIND = Wheels("wheels", "wheels", always=True)
