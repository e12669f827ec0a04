"""The verb `export` in this process, and the contents of a bundle."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any


def export(*arguments: str, code: int = 0, **options: Any) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "reprokit", "export", *arguments], capture_output=True, text=True, timeout=120, **options
    )
    assert done.returncode == code, done.stderr
    return done


def contents(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as tar:
        members = tar.getmembers()
        assert all(member.isreg() for member in members)
        assert len({member.name for member in members}) == len(members)
        return {member.name: tar.extractfile(member).read() for member in members}  # type: ignore[union-attr]
