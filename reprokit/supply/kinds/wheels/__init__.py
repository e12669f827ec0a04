"""Wheels and sdists, resolved by uv for the image's Python."""

from __future__ import annotations

import html
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from packaging.utils import canonicalize_name

from reprokit.compat.stack import resolved_wheels, stated_wheels
from reprokit.recipe.uses import project_name
from reprokit.supply.kinds.kind import (
    InputRequest,
    InputServer,
    Kind,
    SbomEntry,
    Tools,
    UpstreamChange,
    content_key,
    refs_of,
)
from reprokit.supply.locked_input import LockedInput
from reprokit.supply.site import Content, Site
from reprokit.supply.store import Store

if TYPE_CHECKING:
    from reprokit.compat.model import ResolvedVersion
    from reprokit.recipe.find import Target
    from reprokit.supply.kinds.wheels.platform import WheelRequest
    from reprokit.supply.lock.model import Distribution, VariantLock
    from reprokit.supply.mirrors import Mirrors


class Wheels(Kind):
    def resolved_from(self, request: InputRequest) -> list[Any]:
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

    def updatable(self, lock: VariantLock | None) -> Collection[str]:
        return {wheel.name for wheel in lock.wheels} if lock else ()

    def resolve(self, request: InputRequest, tools: Tools) -> Mapping[str, Any]:
        from reprokit.supply.kinds.wheels.resolve import lock_wheels, merged, wheels_within_facts

        old = request.old.wheels if request.old else ()
        sets: dict[str, tuple[Distribution, ...]] = {}
        for block, required in requests_of(request).items():
            keep = [*chain(*sets.values()), *(w for w in old if block in w.blocks)]
            resolve = partial(lock_wheels, mirrors=tools.mirrors, keep=keep, update=request.freed)
            sets[block] = wheels_within_facts(request.target.variant, required, resolve)
        return {"wheels": merged(sets)}

    def unlocked(self, request: InputRequest, mirrors: Mirrors) -> tuple[Distribution, ...]:
        from reprokit.supply.kinds.wheels.resolve import merged, resolve_wheels, wheels_within_facts

        variant, resolve = request.target.variant, partial(resolve_wheels, mirrors=mirrors)
        requests = requests_of(request).items()
        return merged({block: wheels_within_facts(variant, required, resolve) for block, required in requests})

    def versions(self, target: Target, lock: VariantLock | None, origin: str) -> Mapping[str, ResolvedVersion]:
        """The exact versions of the recipe, those of the lock for others."""
        stated = stated_wheels(requirement.text for requirement in target.wheels)
        if lock is None:
            return stated
        from reprokit.supply.kinds.wheels.resolve import installed

        # The block wheels comes last and replaces packages that other blocks install.
        wheels = sorted(lock.wheels, key=lambda wheel: "wheels" in wheel.blocks)
        locked = resolved_wheels(installed(wheels), origin)
        return {name: stated.get(name, version) for name, version in locked.items()}

    def upstream_changes(self, request: InputRequest, tools: Tools, lock: VariantLock) -> Iterable[UpstreamChange]:
        from reprokit.supply.kinds.wheels.resolve import changed_wheels

        changes: set[UpstreamChange] = set()
        for block, required in requests_of(request).items():
            if locked := [w for w in lock.wheels if block in w.blocks]:
                changes |= set(changed_wheels(locked, required, tools.mirrors))
        return sorted(changes)

    def locations(self, locked: LockedInput, mirrors: Mirrors) -> Iterable[str]:
        return mirrors.wheel_index.urls(locked)

    def sbom_entries(self, lock: VariantLock) -> Iterable[SbomEntry]:
        # A project can be both installed and a tool of a build; then the installed one counts.
        for wheel in sorted(lock.wheels, key=lambda wheel: not wheel.build_only):
            yield SbomEntry("pypi", None, wheel.name, wheel.version, {}, wheel.sha256, build_only=wheel.build_only)

    def server(self, entries: Sequence[Distribution]) -> InputServer:
        return package_index(entries)


KIND = Wheels("wheels", "wheels", always=True, dated=True)


def requests_of(request: InputRequest) -> dict[str, WheelRequest]:
    """The sets of wheels by block: those that a block installs by itself, then all together."""
    from reprokit.supply.kinds.wheels.platform import AsOf, WheelRequest

    target, platform = request.target, request.platform
    if platform is None:
        return {}
    variant, checksums = target.variant, target.checksums
    origin = (variant.wheel_indexes, AsOf(request.as_of))
    sets = {}
    for use in target.uses:
        if use.spec.alone:
            # Its dependencies may have other versions than in the full set, so requirements files do not apply.
            own = project_name(use.wheel)
            allowed = {own: checksums[own]} if own in checksums else {}
            sets[use.spec.name] = WheelRequest([use.wheel], platform, (), *origin, allowed, constraints=use.bounds)
    refs = refs_of(request.sections.get("git", ()))
    together = WheelRequest(target.requirements, platform, variant.sdists, *origin, checksums, refs)
    return sets | {"wheels": together}


def package_index(wheels: Sequence[Distribution]) -> Site:
    """`/KEY/simple/` lists the projects, `/KEY/simple/NAME/` the files that are below it.

    `/KEY/simple/constraints.txt` has the versions to install, as files for building may be newer.
    """

    def contents(store: Store) -> Mapping[str, Content]:
        files = {f"{wheel.name}/{wheel.file}": store.path(wheel.sha256) for wheel in wheels}
        links: dict[str, str] = {}
        for wheel in wheels:
            link = f'<a href="{quote(wheel.file)}#sha256={wheel.sha256}">{html.escape(wheel.file)}</a><br>\n'
            links[wheel.name] = links.get(wheel.name, "") + link
        links[""] = "".join(f'<a href="{name}/">{name}</a><br>\n' for name in sorted(links))
        pages = {n: f"<!DOCTYPE html>\n<html><body>\n{text}</body></html>\n".encode() for n, text in links.items()}
        pinned = "".join(f"{wheel.name}=={wheel.version}\n" for wheel in wheels if not wheel.build_only)
        return {**files, **pages, _canonical("constraints.txt"): pinned.encode()}

    key = content_key(wheels, "file")
    return Site("wheels", key, contents, "simple/", "text/html; charset=utf-8", canonical=_canonical)


def _canonical(path: str) -> str:
    """The path with the project's name as PEP 503 writes it."""
    project, slash, file = path.partition("/")
    return canonicalize_name(project) + slash + file
