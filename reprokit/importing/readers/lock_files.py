"""The lock files of poetry, uv, pdm, pipenv and PEP 751: versions that worked together once."""

from __future__ import annotations

from typing import Any

from reprokit.importing.model import SourceFile, Statements
from reprokit.importing.toml_tables import table
from reprokit.untrusted import toml
from reprokit.untrusted.documents import parsed

_TOML = ("poetry.lock", "uv.lock", "pdm.lock", "pylock.toml")


def read(file: SourceFile) -> Statements:
    if file.path == "Pipfile.lock":
        data = parsed(file.text, file.path)
        for section in ("default", "develop"):
            for name, entry in table(data, section).items():
                if isinstance(version := table(entry).get("version"), str):
                    yield file.states("locked", f"{name}{version}", file.line_of(f'"{section}"', f'"{name}"'))
        return
    data = toml.loads(file.text)
    packages: Any = data.get("package") or data.get("packages") or []
    lines = _lines(file.text)
    for index, entry in enumerate(packages if isinstance(packages, list) else []):
        fields = table(entry)
        name, version = str(fields.get("name", "")), str(fields.get("version", ""))
        if name and version and not {"editable", "virtual"} & set(table(fields, "source")):
            yield file.states("locked", f"{name}=={version}", lines[index] if index < len(lines) else 1)


def _lines(text: str) -> list[int]:
    """The lines at which the entries of the array of tables begin."""
    return [n for n, line in enumerate(text.splitlines(), 1) if line.strip() in ("[[package]]", "[[packages]]")]
