"""A commit's objects as a git pack. The configuration of a repository is never copied."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from reprokit.errors import SourceError
from reprokit.supply.kinds.git.command import git, git_says
from reprokit.supply.kinds.git.store import Commit
from reprokit.supply.upkeep.verify import faults


def pack(folder: Path, commit: Commit, target: Path) -> tuple[str, ...]:
    """Write all objects of a commit to `target`; returns the commits whose parents are not among them.

    The same repository gives the same bytes. Raises SourceError where an object is missing.
    """
    shallow = folder / "shallow"
    with tempfile.TemporaryFile() as wanted, target.open("wb") as out:
        wanted.write(f"{commit.commit}\n".encode())
        wanted.seek(0)
        # One thread, because several find other deltas each time.
        options = ("--revs", "--stdout", "-q", "--threads=1", "--delta-base-offset")
        code, said = git_says(folder, "pack-objects", *options, source=wanted, target=out)
    if code:
        raise SourceError(
            f"the repository of {commit.commit[:12]} is damaged in the store: {said[0] if said else 'git failed'}",
            commit.url,
            "`reprokit store verify --repair` removes it, `reprokit fetch` brings it again",
        )
    return tuple(shallow.read_text().split()) if shallow.exists() else ()


def unpack(packed: Path, commit: Commit, shallow: tuple[str, ...], folder: Path) -> str:
    """Make a bare repository of the commit in `folder`; returns what is wrong with the pack, or nothing."""
    git("init", "--quiet", "--bare", str(folder))
    if shallow:
        (folder / "shallow").write_text("".join(f"{line}\n" for line in shallow))
    with packed.open("rb") as source:
        code, said = git_says(folder, "index-pack", "--stdin", source=source)
    if code:
        return said[0] if said else "git could not read it"
    (folder / "refs" / "heads" / "reprokit").write_text(f"{commit.commit}\n")
    (folder / "HEAD").write_text("ref: refs/heads/reprokit\n")
    shutil.rmtree(folder / "hooks", ignore_errors=True)
    return faults(folder, commit.commit)
