"""The verb `export`, and the contents of a bundle."""

from __future__ import annotations

import subprocess
import tarfile
from pathlib import Path
from typing import Any

from tests.support.verbs import run_verb


def export(*arguments: str, code: int = 0, **options: Any) -> subprocess.CompletedProcess[str]:
    done = run_verb("export", *arguments, **options)
    assert done.returncode == code, done.stderr
    return done


def contents(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as tar:
        members = tar.getmembers()
        assert all(member.isreg() for member in members)
        assert len({member.name for member in members}) == len(members)
        return {member.name: tar.extractfile(member).read() for member in members}  # type: ignore[union-attr]
