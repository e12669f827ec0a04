"""Local git repositories in place of a forge that cannot be reached."""

from __future__ import annotations

import subprocess
from pathlib import Path


class Forge:
    """Local repositories that git believes to be below https://forge.test/."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def git(self, name: str, *arguments: str) -> str:
        settings = ("protocol.file.allow=always", "user.name=t", "user.email=t@example.org")
        command = ["git", "-C", str(self.root / f"{name}.git"), *(w for s in settings for w in ("-c", s)), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def commit(self, name: str, file: str, submodule: str = "") -> str:
        """A commit with one more file in the repository, which is made if it is not there; returns its name."""
        folder = self.root / f"{name}.git"
        if not folder.exists():
            folder.mkdir(parents=True)
            self.git(name, "init", "-q")
        if submodule:
            self.git(name, "submodule", "add", "-q", str(self.root / f"{submodule}.git"), "3rd")
            self.git(name, "config", "-f", ".gitmodules", "submodule.3rd.url", f"../../{submodule}.git")
        (folder / file).write_text(file)
        self.git(name, "add", "-A")
        self.git(name, "commit", "-q", "-m", file)
        return self.git(name, "rev-parse", "HEAD")

    def publish(self, name: str, files: dict[str, str], submodules: dict[str, str] | None = None) -> str:
        """A commit of exactly these files; `submodules` are repositories by their path, at their heads."""
        folder = self.root / f"{name}.git"
        folder.mkdir(parents=True)
        self.git(name, "init", "-q")
        entries = []
        for path, other in (submodules or {}).items():
            url = f"https://github.com/{other}.git"
            entries.append(f'[submodule "{path}"]\n\tpath = {path}\n\turl = {url}\n')
            head = self.git(other, "rev-parse", "HEAD")
            self.git(name, "update-index", "--add", "--cacheinfo", f"160000,{head},{path}")
        for path, text in {**files, **({".gitmodules": "".join(entries)} if entries else {})}.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
            (folder / path).chmod(0o755 if text.startswith("#!") else 0o644)
            self.git(name, "add", path)
        self.git(name, "commit", "-q", "-m", "all of it")
        return self.git(name, "rev-parse", "HEAD")

    @property
    def settings(self) -> dict[str, str]:
        key = f"url.{self.root}/.insteadOf"
        return {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": key, "GIT_CONFIG_VALUE_0": "https://forge.test/"}
