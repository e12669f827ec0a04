"""The conda packages of a variant, solved by rattler for the image's platform, never for this host's.

Only the extra `conda` brings the solver.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Literal

from reprokit.display import Notify
from reprokit.errors import SourceError, UsageError
from reprokit.recipe.model import Variant
from reprokit.redact import redact
from reprokit.supply.kinds.wheels.platform import Platform
from reprokit.supply.lock.model import CondaPackage
from reprokit.untrusted.documents import understood

if TYPE_CHECKING:
    from rattler import Gateway, GenericVirtualPackage, RepoDataRecord

    from reprokit.supply.mirrors.places import Mirrors

Subdir = Literal["linux-64", "linux-aarch64"]
_SUBDIRS: dict[str, Subdir] = {"x86_64": "linux-64", "aarch64": "linux-aarch64"}
# As conda-lock declares: the kernel of the host that locks must not matter.
_LINUX = "5.10"


def lock_conda(variant: Variant, platform: Platform, mirrors: Mirrors, notify: Notify) -> tuple[CondaPackage, ...]:
    """The packages that meet the variant's specs together, with their dependencies, by name.

    A package comes from the first channel that has it. The pin `cuda`, if any, is the version of `__cuda`. Raises
    UsageError without the solver or if specs contradict each other, SourceError where no address serves a channel or
    a package has no checksum.
    """
    subdir = _SUBDIRS.get(platform.machine)
    if subdir is None:
        raise UsageError(f"conda packages are not locked for {platform.machine}", hint=f"known: {', '.join(_SUBDIRS)}")
    _require_rattler()
    notify(f"conda: solving {len(variant.conda)} specs for {subdir}, glibc {platform.glibc}")
    return asyncio.run(_solve(variant, mirrors, subdir, platform.glibc))


def _require_rattler() -> None:
    """Raises UsageError where the extra is not installed."""
    try:
        import rattler  # noqa: F401
    except ImportError:
        raise UsageError(
            "conda packages need the solver of the extra `conda`", hint="pip install 'reprokit[conda]'"
        ) from None


async def _solve(variant: Variant, mirrors: Mirrors, subdir: Subdir, glibc: str) -> tuple[CondaPackage, ...]:
    from rattler import Gateway, solve
    from rattler.exceptions import InvalidMatchSpecError, InvalidVersionError, SolverError

    specs, channels, cuda = [str(spec) for spec in variant.conda], variant.conda_channels, variant.pins.get("cuda", "")
    with TemporaryDirectory(prefix="reprokit-conda-") as cache:
        gateway = Gateway(Path(cache))
        found = {await _reachable(gateway, name, mirrors.channels(name), subdir): name for name in channels}
        try:
            records = await solve(
                list(found), specs, gateway, [subdir, "noarch"], virtual_packages=_virtual(glibc, cuda)
            )
        except SolverError as error:
            raise UsageError(f"no set of conda packages meets {', '.join(specs)}: {error}") from None
        except (InvalidMatchSpecError, InvalidVersionError) as error:
            raise UsageError(f"conda cannot read {', '.join(specs)}, CUDA {cuda or 'none'}: {error}") from None
    return tuple(sorted((_locked(r, found) for r in records), key=lambda p: p.name))


async def _reachable(gateway: Gateway, name: str, urls: Sequence[str], subdir: Subdir) -> str:
    """The first address that serves the channel's package list."""
    from rattler.exceptions import FetchRepoDataError, GatewayError

    reasons = []
    for url in urls:
        try:
            await gateway.names([url], [subdir, "noarch"])
            return url
        except (FetchRepoDataError, GatewayError) as error:
            reasons.append(redact(f"{url}: {error}"))
    raise SourceError(f"no address serves the conda channel {name}", "\n  ".join(reasons))


def _virtual(glibc: str, cuda: str) -> list[GenericVirtualPackage]:
    from rattler import BuildString, GenericVirtualPackage, PackageName, Version

    declared = {"__unix": "0", "__linux": _LINUX, "__glibc": glibc, **({"__cuda": cuda} if cuda else {})}
    return [GenericVirtualPackage(PackageName(n), Version(v), BuildString("0")) for n, v in declared.items()]


def _locked(record: RepoDataRecord, channels: dict[str, str]) -> CondaPackage:
    with understood("a package of the channel", record.url):
        return _described(record, channels)


def _described(record: RepoDataRecord, channels: dict[str, str]) -> CondaPackage:
    url, name = record.url, record.name.normalized
    if record.sha256 is None or record.size is None:
        raise SourceError(f"the channel gives no sha256 and size of the conda package {name} {record.version}", url)
    channel = next((c for place, c in channels.items() if url.startswith(place.rstrip("/") + "/")), "")
    known = {"name": name, "version": str(record.version), "build": str(record.build), "subdir": record.subdir}
    sums = {"sha256": record.sha256.hex(), "size": record.size}
    return CondaPackage.model_validate({**known, **sums, "channel": channel, "file": record.file_name})
