"""The files of a commit in the store and of its submodules, as one archive, for builds that ask for a forge's."""

from __future__ import annotations

import gzip
import os
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from reprokit.errors import SourceError
from reprokit.supply.kinds.git.command import environment
from reprokit.supply.kinds.git.store import folder_of, submodules_of
from reprokit.supply.lock.model import GitCommit
from reprokit.supply.locked_input import Commit
from reprokit.supply.serve.site import Content, Site
from reprokit.supply.store import Store, key_of


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
    """A .tar.gz of the commit, below one folder, in the store. Raises SourceError where the store lacks an object."""
    with store.scratch() as scratch:
        path = Path(scratch) / "archive.tar.gz"
        # Without a date: pip writes the checksum of what it got into the image.
        with (
            path.open("wb") as file,
            gzip.GzipFile("", "wb", 1, file, mtime=0) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as out,
        ):
            _add(out, commit, store, commit.commit)
        return store.path(store.add(path))


def _add(out: tarfile.TarFile, commit: Commit, store: Store, below: str) -> None:
    # Without the user's settings: filters of these could run programs on files of the commit.
    isolated = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_ATTR_NOSYSTEM": "1"}
    command = [
        "git",
        "-c",
        "safe.directory=*",
        f"--git-dir={folder_of(commit, store)}",
        "archive",
        f"--prefix={below}/",
        commit.commit,
    ]
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment() | isolated,
    ) as process:
        try:
            with tarfile.open(fileobj=process.stdout, mode="r|") as found:
                for member in found:
                    out.addfile(member, found.extractfile(member) if member.isreg() else None)
        except tarfile.TarError as error:
            raise SourceError(f"the files of {commit.commit[:12]} cannot be read: {error}", commit.url) from None
        finally:
            process.stdout.close()  # type: ignore[union-attr]
    if process.returncode:
        raise SourceError(f"the files of {commit.commit[:12]} cannot be read", commit.url)
    for path, inner in submodules_of(commit, store).items():
        if folder_of(inner, store).is_dir():
            _add(out, inner, store, f"{below}/{path}")
