"""One module a format. A file is read by the first reader that takes it."""

from __future__ import annotations

from typing import Protocol

from reprokit.importing.model import SourceFile, Statements
from reprokit.importing.readers import (
    c_code,
    citation,
    cmake,
    devcontainer,
    dockerfile,
    environment,
    gitmodules,
    lfs,
    lock_files,
    makefile,
    notebook,
    pipfile,
    pyproject,
    python_code,
    readme,
    repo2docker,
    requirements,
    scripts,
    setup_cfg,
    setup_py,
    tox,
    workflows,
)


class FormatReader(Protocol):
    """Reads one format. `MOST` is the largest file in bytes that it reads."""

    MOST: int

    def reads(self, path: str, size: int) -> bool:
        """Whether a file is of this format."""
        ...

    def read(self, file: SourceFile) -> Statements:
        """What a file states. Raises UsageError or ValueError for a file that is not valid."""
        ...


READERS: dict[str, FormatReader] = {
    "pyproject": pyproject,
    "setup.cfg": setup_cfg,
    "setup.py": setup_py,
    "lock": lock_files,
    "requirements": requirements,
    "environment": environment,
    "pipfile": pipfile,
    "dockerfile": dockerfile,
    "devcontainer": devcontainer,
    "repo2docker": repo2docker,
    "cmake": cmake,
    "gitmodules": gitmodules,
    "workflow": workflows,
    "tox": tox,
    "script": scripts,
    "makefile": makefile,
    "readme": readme,
    "citation": citation,
    "notebook": notebook,
    "python": python_code,
    "c": c_code,
    "lfs": lfs,
}
