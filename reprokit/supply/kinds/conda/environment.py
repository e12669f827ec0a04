"""A conda environment of locked packages, written as a tar for its path in the image.

Whatever their archives and lists name is only a name in this tar: nothing of them is opened or written on this host.
Nothing is run either: the image needs no installer, and link scripts, which few packages have, are left out.
"""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import IO, cast

from reprokit.errors import SourceError
from reprokit.supply.kinds.conda.archive import CondaArchive, Taken, readable
from reprokit.supply.kinds.conda.links import CondaPython, Link, checked, links
from reprokit.supply.kinds.kind import content_key
from reprokit.supply.lock.model import CondaPackage
from reprokit.supply.store import Store
from reprokit.untrusted.tar import Stream


def environment(packages: Sequence[CondaPackage], store: Store) -> Path:
    """A tar of `/opt/conda` with these packages, which are in the store. The tar is kept there too.

    Raises SourceError if a package cannot be linked, UsageError beyond a limit.
    """
    key = content_key(packages)
    known = store.remembered("conda", key)
    if known is not None and store.path(known).exists():
        return store.path(known)
    with store.scratch() as scratch:
        folder, taken = Path(scratch), Taken()
        archives = [
            CondaArchive(package, store.path(package.sha256), folder / str(number), taken)
            for number, package in enumerate(packages)
        ]
        _write(_linked(archives), folder / "environment.tar")
        sha256 = store.add(folder / "environment.tar")
    store.remember("conda", key, sha256)
    return store.path(sha256)


def _linked(archives: Sequence[CondaArchive]) -> list[Link]:
    """All files of the environment, sorted, each folder before what is in it. Raises SourceError, UsageError."""
    python = None
    for archive in archives:
        if archive.package.name == "python":
            with readable(archive.package):
                python = CondaPython.of(archive)
    found: dict[str, Link] = {"conda-meta/history": Link("conda-meta/history", b"")}
    for archive in _by_priority(archives):
        with readable(archive.package):
            record = _record(archive, python, found)
        found[record.path] = record
    ordered = sorted(found.values(), key=lambda link: link.path.replace("/", "\0"))
    for above, below in pairwise(ordered):
        if above.content is not None and below.path.startswith(f"{above.path}/"):
            why = f"{above.path!r} is a file or a link, and {below.path!r} is below it"
            raise SourceError(f"the conda packages cannot be linked: {why}")
    return ordered


def _record(archive: CondaArchive, python: CondaPython | None, found: dict[str, Link]) -> Link:
    """Add the package's files to those that are found first; returns conda's record of the package."""
    package, paths = archive.package, []
    for link, stated in links(archive, python):
        if found.setdefault(link.path, link) is link:
            paths.append(stated)
    paths.sort(key=lambda stated: stated["_path"])
    known = {
        **archive.facts(), "name": package.name, "version": package.version, "build": package.build,
        "subdir": package.subdir, "channel": package.channel, "fn": package.file, "sha256": package.sha256,
        "size": package.size, "url": f"{package.channel}/{package.subdir}/{package.file}", "requested_specs": [],
        "files": [stated["_path"] for stated in paths], "paths_data": {"paths": paths, "paths_version": 1},
    }  # fmt: skip
    content = json.dumps(known, indent=1, sort_keys=True).encode()
    path = checked(f"conda-meta/{package.name}-{package.version}-{package.build}.json", archive)
    return Link(path, content, len(content))


def _by_priority(archives: Sequence[CondaArchive]) -> Iterator[CondaArchive]:
    """By name, but before their dependencies: of two files with one path, the first package's is kept."""
    known = {archive.package.name: archive for archive in archives}
    done, seen = dict[str, CondaArchive](), set[str]()
    for first in sorted(known, reverse=True):
        stack = [first]
        while stack:
            name = stack[-1]
            if name not in seen:
                seen.add(name)
                stack += [other for other in known[name].dependencies if other in known and other not in seen]
            else:
                done.setdefault(stack.pop(), known[name])
    return reversed(done.values())


def _write(links: Sequence[Link], out: Path) -> None:
    """Write a tar that is reproducible, and readable by every user of a container."""
    folders = {""}
    with tarfile.open(out, "w", format=tarfile.GNU_FORMAT, encoding="utf-8") as tar:
        for link in links:
            path, content = link.path, link.content
            above = path.split("/") if content is None else path.split("/")[:-1]
            for depth in range(1, len(above) + 1):
                if (folder := "/".join(above[:depth])) not in folders:
                    folders.add(folder)
                    tar.addfile(_member(folder, tarfile.DIRTYPE, 0o755))
            if isinstance(content, bytes):
                program = path.startswith("bin/")
                tar.addfile(_member(path, tarfile.REGTYPE, 0o755 if program else 0o644, link.size), io.BytesIO(content))
            elif content is not None and content.target is not None:
                member = _member(path, tarfile.SYMTYPE, 0o777)
                member.linkname = content.target
                tar.addfile(member)
            elif content is not None:
                member = _member(path, tarfile.REGTYPE, 0o755 if content.executable else 0o644, link.size)
                body = link.prefix.replaced(content.blocks()) if link.prefix else content.blocks()
                tar.addfile(member, cast(IO[bytes], Stream(body)))


def _member(path: str, kind: bytes, mode: int, size: int = 0) -> tarfile.TarInfo:
    member = tarfile.TarInfo(path)
    member.type, member.mode, member.size = kind, mode, size
    return member
