"""Local git repositories."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

from reprokit.config import Configuration, MirrorEntry
from reprokit.supply.kinds.git.command import git
from reprokit.supply.kinds.git.store import folder_of
from reprokit.supply.locked_input import Commit
from reprokit.supply.store import Store

TOOL = "https://forge.test/team/tool"


class Repositories:
    """Local repositories that git uses for addresses below https://forge.test/."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def git(self, name: str, *arguments: str) -> str:
        command = ["git", "-C", str(self.root / f"{name}.git"), "-c", "protocol.file.allow=always", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def make(self, name: str, files: dict[str, str], submodules: dict[str, tuple[str, str]] | None = None) -> str:
        """Make a repository with one commit and return that; submodules as path: (name of a repository, address)."""
        folder = self.root / f"{name}.git"
        folder.mkdir(parents=True)
        self.git(name, "init", "-q", "-b", "main")
        for path, (other, address) in (submodules or {}).items():
            self.git(name, "submodule", "add", "-q", str(self.root / f"{other}.git"), path)
            self.git(name, "config", "-f", ".gitmodules", f"submodule.{path}.url", address)
        return self.commit(name, files)

    def commit(self, name: str, files: dict[str, str]) -> str:
        for path, text in files.items():
            file = self.root / f"{name}.git" / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        self.git(name, "add", "-A")
        self.git(name, "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-q", "-m", "change")
        return self.git(name, "rev-parse", "HEAD")


def allow_filters(repositories: Repositories, name: str) -> None:
    """Allow partial fetches, as public forges do."""
    repositories.git(name, "config", "uploadpack.allowFilter", "true")


def big_files(count: int) -> dict[str, str]:
    """Files with random content, which git cannot compress."""
    return {f"file{n}": random.Random(n).randbytes(4000).hex() for n in range(count)}


def show(commit: Commit, path: str, store: Store) -> str:
    return git("show", f"{commit.commit}:{path}", folder=folder_of(commit, store))


def mirror(*templates: str) -> Configuration:
    return Configuration(tuple(MirrorEntry("git", template, "test") for template in templates))
