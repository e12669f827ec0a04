"""A conda environment of locked packages, linked on this host for its path in the image.

rattler unpacks the packages and writes that path into their files, and runs none of their programs. The image needs no
installer, and the host no container. Link scripts, which few packages have, are not run.
"""

from __future__ import annotations

import asyncio
import json
import tarfile
from collections.abc import Sequence
from pathlib import Path

from reprokit.errors import SourceError
from reprokit.supply.kinds.conda.solve import require_rattler
from reprokit.supply.kinds.kind import content_key
from reprokit.supply.lock.model import CondaPackage
from reprokit.supply.store import Store

PLACE = "/opt/conda"


def environment(packages: Sequence[CondaPackage], store: Store) -> Path:
    """A tar of `/opt/conda` with these packages, which are in the store. The tar is kept there too.

    Raises UsageError without the extra `conda`, SourceError where a package cannot be linked.
    """
    key = content_key(packages)
    known = store.remembered("conda", key)
    if known is not None and store.path(known).exists():
        return store.path(known)
    require_rattler()
    with store.scratch() as scratch:
        folder = Path(scratch)
        asyncio.run(_link(packages, store, folder))
        _without_host_paths(folder / "environment", packages)
        _pack(folder / "environment", folder / "environment.tar")
        sha256 = store.add(folder / "environment.tar")
    store.remember("conda", key, sha256)
    return store.path(sha256)


async def _link(packages: Sequence[CondaPackage], store: Store, folder: Path) -> None:
    from rattler import RepoDataRecord, Subdir, install
    from rattler.exceptions import ExtractError, InstallerError, IoError, LinkError, TransactionError

    (folder / "packages").mkdir()
    platform = next((p.subdir for p in packages if p.subdir != "noarch"), None)
    try:
        records = []
        for package in packages:
            # rattler recognises the two formats by file name, after following links.
            file = folder / "packages" / package.file
            file.hardlink_to(store.path(package.sha256))
            records.append(await RepoDataRecord.from_package_archive(file))
        await install(
            records,
            folder / "environment",
            cache_dir=folder / "cache",
            platform=Subdir(platform) if platform else None,
            execute_link_scripts=False,
            show_progress=False,
            alternative_target_prefix=PLACE,
        )
    except (ExtractError, InstallerError, IoError, LinkError, TransactionError) as error:
        raise SourceError(f"the conda packages cannot be linked: {error}") from None


def _without_host_paths(environment: Path, packages: Sequence[CondaPackage]) -> None:
    """Replace this host's folders in conda's records of its packages by the channel."""
    for package in packages:
        [record] = (environment / "conda-meta").glob(f"{package.name}-{package.version}-{package.build}.json")
        known = json.loads(record.read_text())
        for name in ("extracted_package_dir", "package_tarball_full_path", "link"):
            known.pop(name, None)
        known |= {"channel": package.channel, "url": f"{package.channel}/{package.subdir}/{package.file}"}
        record.write_text(json.dumps(known, indent=1, sort_keys=True))


def _pack(environment: Path, out: Path) -> None:
    """Write a tar that is reproducible, and readable by every user of a container."""

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = member.mtime = 0
        member.uname = member.gname = ""
        member.mode |= 0o444 | (0o111 if member.mode & 0o100 else 0)
        return member

    with tarfile.open(out, "w", format=tarfile.GNU_FORMAT) as tar:
        for path in sorted(environment.rglob("*")):
            tar.add(path, str(path.relative_to(environment)), recursive=False, filter=plain)
