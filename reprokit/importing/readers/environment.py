"""`environment.yml` of conda."""

from __future__ import annotations

from reprokit.importing.conda import conda_statements
from reprokit.importing.model import SourceFile, Statements
from reprokit.importing.requirement_lines import requirement_statements
from reprokit.importing.toml_tables import table
from reprokit.recipe import yaml
from reprokit.recipe.requirements import environment_entries

_NAMES = ("environment", "env", "conda")


def read(file: SourceFile) -> Statements:
    document = yaml.read(file.text, file.path)
    for name, value in table(document.data, "variables").items():
        yield file.states("env", f"{name}={value}", document.line(("variables", name)))
    for entry, line, of_pip in environment_entries(document):
        if of_pip:
            yield from requirement_statements(file.part(str(entry), line), one_line=True)
        elif isinstance(entry, str):
            yield from conda_statements(file, entry, line)
