"""The files of a commit in the store and of its submodules, as one archive, for builds that ask for a forge's."""

from __future__ import annotations

import gzip
import os
import subprocess
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO

from reprokit.errors import SourceError
from reprokit.supply.kinds.git.command import start_git
from reprokit.supply.kinds.git.store import check_count, folder_of, packed_size, submodules_of
from reprokit.supply.lock.model import GitCommit
from reprokit.supply.locked_input import Commit
from reprokit.supply.serve.site import Content, Site
from reprokit.supply.store import Store, key_of
from reprokit.untrusted.limits import ENTRIES, check_unpacked


def archives(commits: Sequence[GitCommit]) -> Site:
    """`/KEY/HOST/OWNER/REPOSITORY/archive/REF.tar.gz` are the files of one commit, as GitHub has them."""
    # A tag may be locked at another commit: that is another address, and another layer. A commit names its content.
    key = key_of(sorted([locked.url, locked.ref, locked.commit] for locked in commits if locked.ref))[:16]

    def contents(store: Store) -> Mapping[str, Content]:
        return {
            f"{c.address.name}/archive/{c.ref or c.commit}.tar.gz": partial(archive_of, c.address, store)
            for c in commits
        }

    return Site("archives", key, contents)


def archive_of(commit: Commit, store: Store) -> Path:
    """A .tar.gz of the commit, below one folder, in the store.

    Raises SourceError if the store lacks an object, UsageError if the archive is much larger than the commits.
    """
    with store.scratch() as scratch:
        path = Path(scratch) / "archive.tar.gz"
        # Without a date: pip writes the checksum of what it got into the image.
        with (
            path.open("wb") as file,
            gzip.GzipFile("", "wb", 1, file, mtime=0) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as out,
        ):
            _write(out, commit, store)
        return store.path(store.add(path))


def _write(out: tarfile.TarFile, top: Commit, store: Store) -> None:
    """Add the files of a commit and of its submodules, within limits: small repositories can name endless paths."""
    left = [(top.commit, top)]
    packed: dict[Commit, int] = {}
    paths = entries = unpacked = 0
    while left:
        below, commit = left.pop()
        packed[commit] = packed_size(folder_of(commit, store))
        for member, content in _files(commit, store, below):
            entries, unpacked = entries + 1, unpacked + member.size
            ENTRIES.check(entries, "files in an archive", top.url)
            check_unpacked(unpacked, sum(packed.values()), top.url)
            out.addfile(member, content)
        inner = submodules_of(commit, store).items()
        paths += len(inner)
        check_count(paths, top.url)
        left += [(f"{below}/{path}", c) for path, c in reversed(inner) if folder_of(c, store).is_dir()]


def _files(commit: Commit, store: Store, below: str) -> Iterator[tuple[tarfile.TarInfo, IO[bytes] | None]]:
    # Without the user's settings: filters of these could run programs on files of the commit.
    isolated = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_ATTR_NOSYSTEM": "1"}
    repository = ("-c", "safe.directory=*", f"--git-dir={folder_of(commit, store)}")
    command = (*repository, "archive", f"--prefix={below}/", commit.commit)
    with start_git(*command, stderr=subprocess.DEVNULL, environ={**os.environ, **isolated}) as process:
        try:
            with tarfile.open(fileobj=process.stdout, mode="r|") as found:
                for member in found:
                    yield member, found.extractfile(member) if member.isreg() else None
        except tarfile.TarError as error:
            raise SourceError(f"the files of {commit.commit[:12]} cannot be read: {error}", commit.url) from None
        finally:
            process.stdout.close()  # type: ignore[union-attr]
    if process.returncode:
        raise SourceError(f"the files of {commit.commit[:12]} cannot be read", commit.url)
