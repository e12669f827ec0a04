"""Scripts that set an environment up: `setup.sh`, `install.sh` and the like."""

from __future__ import annotations

from reprokit.importing.installs import script_statements

MOST = 256 << 10
_NAMES = ("setup", "install", "build", "env", "prepare", "bootstrap", "requirements", "dependencies", "create")


def reads(path: str, size: int) -> bool:
    name = path.rpartition("/")[2].lower()
    return name.endswith((".sh", ".bash")) and name.startswith(_NAMES) and path.count("/") <= 2


read = script_statements
