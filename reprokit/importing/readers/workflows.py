"""Workflows of GitHub Actions and `.travis.yml`: Python versions, packages and commands that their runs prove."""

from __future__ import annotations

from typing import Any

from reprokit.importing.installs import script_statements
from reprokit.importing.model import SourceFile, Statements
from reprokit.importing.toml_tables import table, texts
from reprokit.recipe import yaml

MOST = 256 << 10
_LINT = ("lint", "doc", "release", "publish", "deploy", "format", "style", "codeql", "stale", "label")


def reads(path: str, size: int) -> bool:
    return path == ".travis.yml" or (path.startswith(".github/workflows/") and path.endswith((".yml", ".yaml")))


def read(file: SourceFile) -> Statements:
    if any(word in file.name for word in _LINT):
        return
    document = yaml.read(file.text, file.path)
    if file.path == ".travis.yml":
        yield from _travis(file, document)
        return
    for job, content in table(document.data, "jobs").items():
        if any(word in job.lower() for word in _LINT):
            continue
        matrix = table(content, "strategy", "matrix")
        for key in ("python-version", "python_version", "python"):
            yield from _versions(file, document, ("jobs", job, "strategy", "matrix", key), matrix.get(key))
        for number, step in enumerate(content.get("steps") or [] if isinstance(content, dict) else []):
            path = ("jobs", job, "steps", number)
            yield from _versions(
                file, document, (*path, "with", "python-version"), table(step, "with").get("python-version")
            )
            if isinstance(script := table(step).get("run"), str):
                line = document.line((*path, "run")) + (1 if "\n" in script else 0)
                yield from script_statements(file.part(script, line), runs=True)


def _travis(file: SourceFile, document: yaml.Document) -> Statements:
    data = table(document.data)
    yield from _versions(file, document, ("python",), data.get("python"))
    for number, name in enumerate(texts(table(data, "addons", "apt").get("packages", []))):
        yield file.states("apt", name, document.line(("addons", "apt", "packages", number)))
    for key in ("before_install", "install", "before_script", "script"):
        for number, command in enumerate(texts(data.get(key, []))):
            yield from script_statements(file.part(command, document.line((key, number))), runs=True)


def _versions(file: SourceFile, document: yaml.Document, path: yaml.Path, value: Any) -> Statements:
    """Versions as they are written: YAML reads 3.10 as 3.1."""
    for number, one in enumerate(value if isinstance(value, list) else [value]):
        place = (*path, number) if isinstance(value, list) else path
        text = document.text(place) or str(one)
        parts = text.strip("'\"").split(".")
        if parts[0] == "3" and len(parts) > 1 and parts[1].isdigit():
            yield file.states("tested", f"3.{parts[1]}", document.line(place))
