"""The files of repo2docker and of other hosts: `runtime.txt`, `apt.txt`, `postBuild`, `.python-version`."""

from __future__ import annotations

from reprokit.importing.installs import script_statements
from reprokit.importing.model import SourceFile, Statements

MOST = 1 << 20
_FOLDERS = ("", ".binder", "binder")


def reads(path: str, size: int) -> bool:
    folder, _, name = path.rpartition("/")
    return folder in _FOLDERS and name in ("runtime.txt", "apt.txt", "packages.txt", "postBuild", ".python-version")


def read(file: SourceFile) -> Statements:
    if file.name == "postBuild":
        yield from script_statements(file)
        return
    for number, line in enumerate(file.text.splitlines(), 1):
        for word in line.partition("#")[0].split():
            if file.name in ("apt.txt", "packages.txt"):
                yield file.states("apt", word, number)
            else:
                version = (
                    word.removeprefix("python-").removeprefix("3.") if word.startswith(("python-3.", "3.")) else ""
                )
                if version.partition(".")[0].isdigit():
                    yield file.states("python", f"==3.{version.partition('.')[0]}.*", number)
