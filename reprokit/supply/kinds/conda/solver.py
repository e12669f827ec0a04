"""The process in which rattler reads a channel's lists and solves: what takes too much ends it, not reprokit.

Standard input has the job as JSON, standard output the answer: `{"packages": [...]}`, or `{"error": ..., "where": ...}`
whose `error` blames the specs if there is no `where`.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from reprokit.untrusted.limits import CONDA_BYTES, CONDA_SECONDS
from reprokit.untrusted.terminal import Output

if TYPE_CHECKING:
    from rattler import Gateway, GenericVirtualPackage, RepoDataRecord

# As conda-lock declares: the kernel of the host that locks must not matter.
_LINUX = "5.10"


class _Unreachable(Exception):
    def __init__(self, channel: str, reasons: Sequence[str]) -> None:
        super().__init__(f"no address serves the conda channel {channel}")
        self.reasons = "\n  ".join(reasons)


def main() -> None:
    for kind in (resource.RLIMIT_DATA, resource.RLIMIT_FSIZE):
        resource.setrlimit(kind, (CONDA_BYTES.most, CONDA_BYTES.most))
    resource.setrlimit(resource.RLIMIT_CPU, (CONDA_SECONDS.most, CONDA_SECONDS.most + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    job = json.load(sys.stdin.buffer)
    try:
        answer = asyncio.run(_solved(**job))
    except _Unreachable as error:
        answer = {"error": str(error), "where": error.reasons}
    Output(1, raw=True).write(json.dumps(answer).encode())


async def _solved(
    specs: list[str], channels: dict[str, list[str]], subdir: str, glibc: str, cuda: str
) -> dict[str, Any]:
    from rattler import Gateway, solve
    from rattler.exceptions import InvalidMatchSpecError, InvalidVersionError, SolverError

    platforms: Any = [subdir, "noarch"]
    with TemporaryDirectory(prefix="reprokit-conda-") as cache:
        gateway = Gateway(Path(cache))
        found = {await _reachable(gateway, name, urls, platforms): name for name, urls in channels.items()}
        try:
            records = await solve(list(found), specs, gateway, platforms, virtual_packages=_virtual(glibc, cuda))
        except SolverError as error:
            return {"error": f"no set of conda packages meets {', '.join(specs)}: {error}"}
        except (InvalidMatchSpecError, InvalidVersionError) as error:
            return {"error": f"conda cannot read {', '.join(specs)}, CUDA {cuda or 'none'}: {error}"}
    return {"packages": [_described(record, found) for record in records]}


async def _reachable(gateway: Gateway, name: str, urls: Sequence[str], platforms: Any) -> str:
    """The first address that serves the channel's package list."""
    from rattler.exceptions import FetchRepoDataError, GatewayError

    reasons = []
    for url in urls:
        try:
            await gateway.names([url], platforms)
            return url
        except (FetchRepoDataError, GatewayError) as error:
            reasons.append(f"{url}: {error}")
    raise _Unreachable(name, reasons)


def _virtual(glibc: str, cuda: str) -> list[GenericVirtualPackage]:
    from rattler import BuildString, GenericVirtualPackage, PackageName, Version

    declared = {"__unix": "0", "__linux": _LINUX, "__glibc": glibc, **({"__cuda": cuda} if cuda else {})}
    return [GenericVirtualPackage(PackageName(n), Version(v), BuildString("0")) for n, v in declared.items()]


def _described(record: RepoDataRecord, channels: dict[str, str]) -> dict[str, Any]:
    channel = next((c for place, c in channels.items() if record.url.startswith(place.rstrip("/") + "/")), "")
    return {
        "url": record.url,
        "channel": channel,
        "subdir": record.subdir,
        "name": record.name.normalized,
        "version": str(record.version),
        "build": str(record.build),
        "file": record.file_name,
        "sha256": record.sha256.hex() if record.sha256 else None,
        "size": record.size,
    }


if __name__ == "__main__":
    main()
