"""Packages of a distribution, resolved by the base's own apt."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from reprokit.compat.model import ResolvedVersion
from reprokit.compat.version import begins
from reprokit.supply.kinds.kind import InputRequest, InputServer, Kind, SbomEntry, Tools, UpstreamChange
from reprokit.supply.locked_input import LockedInput

if TYPE_CHECKING:
    from reprokit.recipe.find import Target
    from reprokit.recipe.model import Variant
    from reprokit.supply.lock.model import AptPackage, VariantLock
    from reprokit.supply.mirrors import Mirrors


# Packages that a pin is about, and those that have its version in their names.
_PINNED = {"cmake": "cmake", "nvidia-cuda-toolkit": "cuda"}
_WITH_VERSION = re.compile(r"(gcc|clang|llvm|python)-?([0-9.]+)(?:-dev)?")
# `1:14.0.6-12`, or Debian's CUDA: the compiler's version before that of the toolkit in `11.8.89~11.8.0-5~deb12u1`.
_UPSTREAM = re.compile(r"(?:\d+:)?(?:[\d.]+~)?(\d+(?:\.\d+)*)")


class Apt(Kind):
    def resolved_from(self, request: InputRequest) -> list[Any]:
        installs = [[list(i.packages), list(i.before), list(i.components)] for i in request.installs]
        return [[request.target.variant.base, request.machine, installs], [i.block for i in request.installs]]

    def names(self, variant: Variant, lock: VariantLock | None) -> Collection[str]:
        return {package.name for package in lock.apt} if lock else ()

    def kept(self, lock: VariantLock) -> Mapping[str, Any]:
        return {"apt": lock.apt, "apt_as_of": lock.apt_as_of}

    def resolve(self, request: InputRequest, tools: Tools) -> Mapping[str, Any]:
        from reprokit.supply.kinds.apt.resolve import lock_apt

        packages, as_of = lock_apt(request.installs, tools, request.followed)
        return {"apt": packages, "apt_as_of": as_of}

    def versions(self, target: Target, lock: VariantLock | None, origin: str) -> Mapping[str, ResolvedVersion]:
        """Those of pinned programs; other packages may depend on other versions of the same program."""
        pins, versions = target.variant.pins, {}
        for package in lock.apt if lock else ():
            name = _PINNED.get(package.name, "")
            if match := _WITH_VERSION.fullmatch(package.name):
                name = match[1] if begins(match[2], pins.get(match[1], "")) else ""
            if name in pins and (upstream := _UPSTREAM.match(package.version)):
                versions[name] = ResolvedVersion(upstream[1], origin)
        return versions

    def upstream_changes(self, request: InputRequest, tools: Tools, lock: VariantLock) -> Iterable[UpstreamChange]:
        from reprokit.supply.kinds.apt.resolve import changed_apt

        return changed_apt(request.installs, lock.apt, tools)

    def locations(self, locked: LockedInput, mirrors: Mirrors) -> Iterable[str]:
        """The user's mirrors, the host's own, the lock's address, those that `lock` used, the public ones."""
        from reprokit.config import archives
        from reprokit.config.templates import filled, split_archive

        archive = locked.fields["archive"]
        named = [split_archive(mirror) for mirror in mirrors.configuration.of("apt")]
        own = mirrors.apt.mirrors.get(archive)
        yield from filled([template for only, template in named if only in ("", archive)], locked.fields)
        yield from filled([own + "/{path}"] if own else [], locked.fields)
        yield from locked.urls
        yield from filled([base + "/{path}" for base in mirrors.seen(archive)], locked.fields)
        yield from filled(archives.public_places(archive), locked.fields)

    def sbom_entries(self, lock: VariantLock) -> Iterable[SbomEntry]:
        """Includes the packages of a bootstrapped base."""
        made = lock.base.bootstrap
        distribution = made.distribution if made else "ubuntu" if "ubuntu" in lock.base.reference else "debian"
        for package in (*(made.packages if made else ()), *lock.apt):
            qualifiers = {"arch": package.architecture}
            yield SbomEntry("deb", distribution, package.name, package.version, qualifiers, package.sha256)

    def server(self, entries: Sequence[AptPackage]) -> InputServer:
        from reprokit.supply.kinds.apt.deb import archive

        return archive(entries)


KIND = Apt("apt", "packages", pins=("gcc", "clang", "cmake", "llvm", "python", "cuda"), in_base=True)
