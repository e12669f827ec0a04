"""The conda packages of a variant, solved by rattler for the image's platform, never for this host's.

Only the extra `conda` brings the solver. It runs in a separate process, as it parses the answers of a channel's server.
"""

from __future__ import annotations

import asyncio
import json
import resource
import signal
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from reprokit.display import notify
from reprokit.errors import SourceError, UsageError
from reprokit.host.command import Flood, exchanged, own_module
from reprokit.installation import extra_command
from reprokit.redact import redact
from reprokit.supply.kinds.wheels.platform import Platform
from reprokit.supply.lock.model import CondaPackage
from reprokit.untrusted.documents import understood
from reprokit.untrusted.limits import CONDA_BYTES, CONDA_SECONDS, PROGRAM_OUTPUT
from reprokit.untrusted.terminal import Output

if TYPE_CHECKING:
    from rattler import Gateway, GenericVirtualPackage, RepoDataRecord

    from reprokit.supply.mirrors import Mirrors


_SUBDIRS = {"x86_64": "linux-64", "aarch64": "linux-aarch64"}
_ANSWER = TypeAdapter(dict[str, str | list[dict[str, Any]]])
# As conda-lock declares: the kernel of the host that locks must not matter.
_LINUX = "5.10"


def lock_conda(
    specs: Sequence[str], channels: Sequence[str], cuda: str, platform: Platform, mirrors: Mirrors
) -> tuple[CondaPackage, ...]:
    """The packages that meet all specs together, with their dependencies, by name.

    A package comes from the first channel that has it. `cuda` is the version of `__cuda`, "" for none. Raises
    UsageError without the solver, if specs contradict each other, or if the solver reaches a limit; SourceError
    if no address serves a channel or a package has no checksum.
    """
    subdir = _SUBDIRS.get(platform.machine)
    if subdir is None:
        raise UsageError(f"conda packages are not locked for {platform.machine}", hint=f"known: {', '.join(_SUBDIRS)}")
    if find_spec("rattler") is None:
        hint = f"install it: `{extra_command('conda')}`"
        raise UsageError("conda packages need the solver of the extra `conda`", hint=hint)
    notify(f"conda: solving {len(specs)} specs for {subdir}, glibc {platform.glibc}")
    answer = _answer(
        {
            "specs": list(specs),
            "channels": {name: mirrors.channels(name) for name in channels},
            "subdir": subdir,
            "glibc": platform.glibc,
            "cuda": cuda,
        }
    )
    if "where" in answer:
        raise SourceError(str(answer["error"]), redact(str(answer["where"])))
    if "error" in answer:
        raise UsageError(str(answer["error"]))
    return tuple(sorted(map(_locked, answer["packages"]), key=lambda package: package.name))


def _answer(job: dict[str, Any]) -> dict[str, Any]:
    process = subprocess.Popen(
        own_module("reprokit.supply.kinds.conda.solve"), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, cwd="/", start_new_session=True,
    )  # fmt: skip
    with process:
        try:
            out, err = exchanged(process, json.dumps(job).encode(), None, PROGRAM_OUTPUT.most)
        except Flood:
            raise SourceError("the conda solver printed too much") from None
        finally:
            process.kill()
    if process.returncode == -signal.SIGXCPU:
        CONDA_SECONDS.check(CONDA_SECONDS.most + 1, "seconds of processor time", "the conda solver")
    if b"memory allocation of" in err:
        CONDA_BYTES.check(CONDA_BYTES.most + 1, "bytes of memory", "the conda solver")
    try:
        return _ANSWER.validate_json(out)
    except ValidationError:
        lines = err.decode(errors="replace").strip().splitlines()
        raise SourceError(
            f"the conda solver failed on the channels' lists: {redact(lines[-1]) if lines else process.returncode}"
        ) from None


def _locked(package: dict[str, Any]) -> CondaPackage:
    url = str(package.pop("url", ""))
    if package.get("sha256") is None or package.get("size") is None:
        name = f"{package.get('name')} {package.get('version')}"
        raise SourceError(f"the channel gives no sha256 and size of the conda package {name}", url)
    with understood("a package of the channel", url):
        return CondaPackage.model_validate(package)


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
        names = {await _reachable(gateway, name, urls, platforms): name for name, urls in channels.items()}
        try:
            records = await solve(list(names), specs, gateway, platforms, virtual_packages=_virtual(glibc, cuda))
        except SolverError as error:
            return {"error": f"no set of conda packages meets {', '.join(specs)}: {error}"}
        except (InvalidMatchSpecError, InvalidVersionError) as error:
            return {"error": f"conda cannot read {', '.join(specs)}, CUDA {cuda or 'none'}: {error}"}
    return {"packages": [_described(record, names) for record in records]}


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
    channel = next((c for address, c in channels.items() if record.url.startswith(address.rstrip("/") + "/")), "")
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
