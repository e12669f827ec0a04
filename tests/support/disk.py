"""A file system of a chosen size."""

from __future__ import annotations

import contextlib
import subprocess
from pathlib import Path


class Disk:
    """A file system in memory that holds what `limit` last said; for root, as mounting is."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(folder)], check=True)

    def limit(self, option: str) -> None:
        """An option of tmpfs: `size=1m`, `nr_inodes=9`; 0 is no limit."""
        subprocess.run(["mount", "-o", f"remount,{option}", str(self.folder)], check=True)

    def fill(self) -> None:
        """Write until there is no space left."""
        self.limit("size=256k")
        with contextlib.suppress(OSError), (self.folder / ".filled").open("wb", buffering=0) as file:
            while True:
                file.write(b"0" * 4096)

    def unmount(self) -> None:
        subprocess.run(["umount", "-l", str(self.folder)], check=True)
