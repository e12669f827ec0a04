"""Conda packages, solved by rattler."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from reprokit.compat.model import ResolvedVersion
from reprokit.compat.stack import of_project
from reprokit.compat.version import parts
from reprokit.config.templates import filled
from reprokit.recipe.pin_names import PACKAGES
from reprokit.supply.kinds.kind import InputRequest, InputServer, Kind, SbomEntry, Tools, content_key
from reprokit.supply.locked_input import LockedInput
from reprokit.supply.site import Content, Site
from reprokit.supply.store import Store

if TYPE_CHECKING:
    from reprokit.recipe.find import Target
    from reprokit.recipe.model import Variant
    from reprokit.supply.lock.model import CondaPackage, VariantLock
    from reprokit.supply.mirrors import Mirrors

# Where conda itself looks for channels that are named without an address.
PUBLIC_CHANNEL = "https://conda.anaconda.org/{channel}"
_DEFAULTS = ("main", "r", "free")
_PUBLIC_DEFAULTS = "https://repo.anaconda.com/pkgs/{channel}"
# The facts are about wheels; other conda packages are built differently.
_JUDGED = ("python", "numpy", *PACKAGES)


class Conda(Kind):
    def resolved_from(self, request: InputRequest) -> list[Any]:
        target, platform = request.target, request.platform
        if not target.conda:
            return []
        # glibc and CUDA are the virtual packages `__glibc` and `__cuda` of the solver.
        virtual = [platform.glibc if platform else "", target.variant.pins.get("cuda", "")]
        return [target.conda, target.variant.conda_channels, request.machine, *virtual]

    def names(self, variant: Variant, lock: VariantLock | None) -> Collection[str]:
        return {re.split("[=<>!~]", spec, maxsplit=1)[0] for spec in variant.conda if isinstance(spec, str)}

    def resolve(self, request: InputRequest, tools: Tools) -> Mapping[str, Any]:
        from reprokit.supply.kinds.conda.solve import lock_conda

        target = request.target
        if not target.conda or request.platform is None:
            return {}
        channels, cuda = target.variant.conda_channels, target.variant.pins.get("cuda", "")
        return {"conda": lock_conda(target.conda, channels, cuda, request.platform, tools.mirrors)}

    def versions(self, target: Target, lock: VariantLock | None, origin: str) -> Mapping[str, ResolvedVersion]:
        versions = {}
        for package in lock.conda if lock else ():
            name = "python" if package.name == "python" else of_project(package.name)
            if name in _JUDGED and parts(package.version):
                versions[name] = ResolvedVersion(package.version, origin, matched=True)
        return versions

    def locations(self, locked: LockedInput, mirrors: Mirrors) -> Iterable[str]:
        channels = channel_urls(mirrors.configuration.of("conda"), locked.fields["channel"])
        return filled([channel.rstrip("/") + "/{subdir}/{file}" for channel in channels], locked.fields)

    def sbom_entries(self, lock: VariantLock) -> Iterable[SbomEntry]:
        for package in lock.conda:
            kind = "conda" if package.file.endswith(".conda") else "tar.bz2"
            qualifiers = {"build": package.build, "channel": package.channel, "subdir": package.subdir, "type": kind}
            yield SbomEntry("conda", None, package.name, package.version, qualifiers, package.sha256)

    def server(self, entries: Sequence[CondaPackage]) -> InputServer:
        """The environment as one tar, made when a build requests it."""
        from reprokit.supply.kinds.conda.environment import environment

        def contents(store: Store) -> Mapping[str, Content]:
            return {"environment.tar": partial(environment, entries, store)} if entries else {}

        return Site("conda", content_key(entries), contents, declared=bool(entries))


def channel_urls(mirrors: Iterable[str], channel: str) -> list[str]:
    """Addresses of a conda channel; its subdirs are below them."""
    public = _PUBLIC_DEFAULTS if channel in _DEFAULTS else PUBLIC_CHANNEL
    return list(filled([*mirrors, public], {"channel": channel}))


KIND = Conda("conda", "conda packages")
