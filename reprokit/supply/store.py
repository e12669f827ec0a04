"""The store: immutable files under their sha256, shared by all recipes."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from reprokit import paths

_BLOCK = 1 << 20


def sha256_of(path: Path) -> str:
    """The file's sha256 as 64 hex digits, read in blocks of 1 MiB."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


class Store:
    """Files by content below `root/sha256/`, and remembered answers below `root/index/`.

    Nothing that is published is ever changed: readers take no lock, writers rename into place.
    """

    def __init__(self, root: Path | None = None) -> None:
        self.root = root or paths.home() / "store"

    def path(self, sha256: str) -> Path:
        return self.root / "sha256" / sha256[:2] / sha256

    def scratch(self) -> tempfile.TemporaryDirectory[str]:
        """A folder on the store's own file system, so that what is made there can be published by a rename."""
        folder = self.root / "tmp"
        folder.mkdir(parents=True, exist_ok=True)
        return tempfile.TemporaryDirectory(dir=folder)

    def add(self, path: Path) -> str:
        """Publish a file of `scratch()`, which is gone afterwards; returns its sha256."""
        sha256 = sha256_of(path)
        published = self.path(sha256)
        if not published.exists():
            published.parent.mkdir(parents=True, exist_ok=True)
            with path.open("rb") as file:
                os.fsync(file.fileno())
            path.chmod(0o644)
            path.replace(published)
        else:
            path.unlink()
        return sha256

    def remembered(self, kind: str, key: str) -> Any:
        """What `remember` kept under this key, or None."""
        try:
            return json.loads((self.root / "index" / kind / f"{key}.json").read_text())
        except (OSError, ValueError):
            return None

    def remember(self, kind: str, key: str, value: Any) -> None:
        folder = self.root / "index" / kind
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=folder, delete=False) as file:
            json.dump(value, file, indent=1, sort_keys=True)
        Path(file.name).replace(folder / f"{key}.json")


def key_of(value: Any) -> str:
    """A stable name for plain data."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
