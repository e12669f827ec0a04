"""Wheels and sdists, resolved by uv for the image's Python."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from reprokit.supply.kinds.kind import InputRequest, InputServer, Kind, Moved, Tools
from reprokit.supply.locked_input import LockedInput

if TYPE_CHECKING:
    from reprokit.supply.lock.model import Distribution, VariantLock
    from reprokit.supply.mirrors.places import Mirrors


class Wheels(Kind):
    def asked(self, request: InputRequest) -> list[Any]:
        variant, platform = request.variant, request.platform
        if platform is None or not (request.requirements or variant.sdists):
            return []
        sdists = [sdist.model_dump() for sdist in variant.sdists]
        where = [platform.python, platform.glibc, platform.machine]
        return [list(request.requirements), sdists, variant.wheel_indexes, where]

    def singles(self, lock: VariantLock | None) -> Collection[str]:
        return {wheel.name for wheel in lock.wheels} if lock else ()

    def resolve(self, request: InputRequest, tools: Tools) -> Mapping[str, Any]:
        from reprokit.supply.kinds.wheels.resolve import lock_wheels

        variant, platform = request.variant, request.platform
        if platform is None:
            return {}
        asked = (request.requirements, variant.sdists, platform, variant.wheel_indexes)
        keep = request.old.wheels if request.old else ()
        return {"wheels": lock_wheels(*asked, tools.mirrors, tools.store, tools.say, keep, request.freed)}

    def moved(self, request: InputRequest, tools: Tools, lock: VariantLock) -> Iterable[Moved]:
        from reprokit.supply.kinds.wheels.resolve import moved_wheels

        variant, platform = request.variant, request.platform
        if not lock.wheels or platform is None:
            return ()
        asked = (request.requirements, variant.sdists, platform, variant.wheel_indexes)
        return moved_wheels(lock.wheels, *asked, tools.mirrors, tools.say)

    def locations(self, locked: LockedInput, mirrors: Mirrors) -> Iterable[str]:
        return mirrors.wheel_index.urls(locked)

    def server(self, entries: Sequence[Distribution]) -> InputServer:
        from reprokit.supply.kinds.wheels.serve import Index

        return Index(tuple(entries))


KIND = Wheels("wheels", "wheels", always=True)
