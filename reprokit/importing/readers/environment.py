"""`environment.yml` of conda."""

from __future__ import annotations

from reprokit.importing.conda import conda_statements
from reprokit.importing.model import SourceFile, Statements
from reprokit.importing.requirement_lines import requirement_statements
from reprokit.importing.toml_tables import table
from reprokit.recipe import yaml

MOST = 1 << 20
_NAMES = ("environment", "env", "conda")


def reads(path: str, size: int) -> bool:
    name = path.rpartition("/")[2].lower()
    return name.endswith((".yml", ".yaml")) and name.startswith(_NAMES) and path.count("/") <= 2


def read(file: SourceFile) -> Statements:
    document = yaml.read(file.text, file.path)
    for name, value in table(document.data, "variables").items():
        yield file.states("env", f"{name}={value}", document.line(("variables", name)))
    found = document.data.get("dependencies") if isinstance(document.data, dict) else None
    for index, entry in enumerate(found if isinstance(found, list) else []):
        line = document.line(("dependencies", index))
        if isinstance(entry, str):
            yield from conda_statements(file, entry, line)
        elif isinstance(entry, dict) and isinstance(entry.get("pip"), list):
            for number, text in enumerate(entry["pip"]):
                at = document.line(("dependencies", index, "pip", number))
                yield from requirement_statements(file.part(str(text), at), one_line=True)
