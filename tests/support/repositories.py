"""Local git repositories."""

from __future__ import annotations

import subprocess
from pathlib import Path


class Repositories:
    """Local repositories that git believes to be below https://forge.test/."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def git(self, name: str, *arguments: str) -> str:
        command = ["git", "-C", str(self.root / f"{name}.git"), "-c", "protocol.file.allow=always", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def make(self, name: str, files: dict[str, str], submodules: dict[str, tuple[str, str]] | None = None) -> str:
        """A repository with one commit, which is returned; submodules as path: (name of a repository, address)."""
        folder = self.root / f"{name}.git"
        folder.mkdir(parents=True)
        self.git(name, "init", "-q", "-b", "main")
        for path, (other, address) in (submodules or {}).items():
            self.git(name, "submodule", "add", "-q", str(self.root / f"{other}.git"), path)
            self.git(name, "config", "-f", ".gitmodules", f"submodule.{path}.url", address)
        return self.commit(name, files)

    def commit(self, name: str, files: dict[str, str]) -> str:
        for path, text in files.items():
            (self.root / f"{name}.git" / path).write_text(text)
        self.git(name, "add", "-A")
        self.git(name, "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-q", "-m", "change")
        return self.git(name, "rev-parse", "HEAD")
