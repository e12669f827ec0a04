"""Poetry's tables, by poetry's own code for version constraints, and the `Pipfile` of pipenv."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from poetry.core.constraints.version import parse_constraint
from poetry.core.constraints.version.exceptions import ParseConstraintError

from reprokit.importing.model import Scope, SourceFile, Statements, scope_of_group
from reprokit.importing.requirement_lines import address_statements
from reprokit.importing.toml_tables import table, texts
from reprokit.untrusted import toml

_LONGEST_TEXT = 200


def poetry_statements(file: SourceFile, poetry: Mapping[str, Any]) -> Statements:
    """The statements of `[tool.poetry]`."""
    for key in ("name", "version", "license"):
        if isinstance(value := poetry.get(key), str):
            subject = {"name": "project", "license": "licence"}.get(key, key)
            yield file.states(subject, value, file.line_of("[tool.poetry]", key))  # type: ignore[arg-type]
    for name, value in table(poetry, "dependencies").items():
        yield from _dependency(file, "[tool.poetry.dependencies]", name, value, None)
    for name, value in table(poetry, "dev-dependencies").items():
        yield from _dependency(file, "[tool.poetry.dev-dependencies]", name, value, "test")
    for group, content in table(poetry, "group").items():
        for name, value in table(content, "dependencies").items():
            yield from _dependency(file, f"[tool.poetry.group.{group}", name, value, scope_of_group(group))
    yield from index_statements(file, poetry.get("source"))


def index_statements(file: SourceFile, sources: Any) -> Statements:
    """The indexes of `[[tool.poetry.source]]`, `[[tool.uv.index]]` and the like, without PyPI itself."""
    for source in sources if isinstance(sources, list) else []:
        url, name = table(source).get("url"), str(table(source).get("name", ""))
        if isinstance(url, str) and "://" in url and "$" not in url and name.lower() != "pypi":
            yield file.states("index", url, file.line_of(url))


def source_statements(
    file: SourceFile, name: str, fields: Mapping[str, Any], line: int, scope: Scope | None
) -> Statements:
    """The statement of a dependency that is installed from git, an address or a path; none for an index."""
    place = str(fields.get("path") or fields.get("file") or fields.get("url") or "")
    if isinstance(git := fields.get("git"), str):
        commit = fields.get("rev") or fields.get("ref") or fields.get("tag") or fields.get("branch")
        repository = git.removesuffix(".git")
        yield file.states("source", f"{repository}@{commit}" if commit else repository, line, scope)
    elif "://" in place:
        yield from address_statements(file, place, line, scope, name)
    elif place:
        yield file.states("unread", f"{name}, which is installed from the path {place[:_LONGEST_TEXT]}", line, scope)


def _dependency(
    file: SourceFile, header: str, name: str, value: Any, scope: Scope | None, pipenv: bool = False
) -> Statements:
    line = file.line_of(header, f"\n{name}") + 1
    for choice in value if isinstance(value, list) else [value]:
        fields = choice if isinstance(choice, dict) else {"version": choice}
        version = str(fields.get("version", "*"))
        if name.lower() == "python" and not pipenv:
            yield file.states("python", specifier(version), line)
        elif sources := list(source_statements(file, name, fields, line, scope)):
            yield from sources
        else:
            extras = f"[{','.join(texts(fields.get('extras', [])))}]" if fields.get("extras") else ""
            text = f"{name}{extras}{version.removeprefix('*') if pipenv else specifier(version)}"
            conditions = [str(fields["markers"])] if fields.get("markers") else []
            if isinstance(python := fields.get("python"), str):
                conditions += _python_markers(specifier(python))
            text += f"; {' and '.join(f'({c})' for c in conditions)}" if conditions else ""
            yield file.states("package", text, line, "other" if fields.get("optional") else scope)


def specifier(constraint: str) -> str:
    """A constraint such as `^1.2` as a specifier of PEP 440; only its last range."""
    if len(constraint) > _LONGEST_TEXT:
        raise ValueError(f"a version constraint has {len(constraint)} characters")
    try:
        text = str(parse_constraint(constraint))
    except ParseConstraintError:
        return ""
    text = text.rpartition(" || ")[2].replace(" ", "")
    return "" if text in ("*", "<empty>") else text if text[:1] in "<>=!~" else f"=={text}"


def _python_markers(text: str) -> list[str]:
    """The markers of a specifier of Python. As in poetry, `3.8` alone stands for all its patch releases."""
    parts = []
    for part in filter(None, text.split(",")):
        version = part.lstrip("<>=!~")
        operator = part[: len(part) - len(version)]
        name = "python_version" if operator == "==" and version.count(".") < 2 else "python_full_version"
        parts.append(f'{name} {operator} "{version}"')
    return parts


def read_pipfile(file: SourceFile) -> Statements:
    data = toml.loads(file.text)
    for key in ("python_version", "python_full_version"):
        if version := table(data, "requires").get(key):
            number = ".".join(str(version).split(".")[:2])
            yield file.states("python", f"=={number}.*", file.line_of("[requires]", key))
    yield from index_statements(file, data.get("source"))
    sections: list[tuple[str, Scope | None]] = [("packages", None), ("dev-packages", "test")]
    for section, scope in sections:
        for name, value in table(data, section).items():
            yield from _dependency(file, f"[{section}]", name, value, scope, pipenv=True)
