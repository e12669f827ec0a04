"""One module a format. A file is read by the first reader that takes it."""

from __future__ import annotations

from reprokit.importing.reader import FormatReader
from reprokit.importing.readers import (
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
    "lfs": lfs,
}
