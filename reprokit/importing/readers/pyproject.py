"""`pyproject.toml`: PEP 621, dependency groups, and the tables of setuptools, pdm, hatch, flit and uv."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from reprokit.importing.model import Scope, SourceFile, Statements, scope_of_group
from reprokit.importing.readers.ini_files import classifier, plugin_statements
from reprokit.importing.readers.poetry import index_statements, poetry_statements, source_statements
from reprokit.importing.toml_tables import table, texts
from reprokit.recipe.requirements import Pyproject
from reprokit.untrusted import toml


def read(file: SourceFile) -> Statements:
    data = toml.loads(file.text)
    yield from _project(file, table(data, "project"))
    for text in texts(table(data, "build-system").get("requires", [])):
        yield file.states("package", text, file.line_of("[build-system]", text), "build")
    tool = table(data, "tool")
    yield from poetry_statements(file, table(tool, "poetry"))
    yield from _groups(file, "[tool.pdm.dev-dependencies", table(tool, "pdm", "dev-dependencies"))
    yield from index_statements(file, table(tool, "pdm").get("source"))
    yield from _uv(file, table(tool, "uv"))
    for name, environment in table(tool, "hatch", "envs").items():
        dependencies = [*texts(table(environment).get("dependencies", [])),
                        *texts(table(environment).get("extra-dependencies", []))]  # fmt: skip
        for text in dependencies:
            yield file.states("package", text, file.line_of(f"[tool.hatch.envs.{name}", text), scope_of_group(name))
    settings = table(tool, "pytest", "ini_options")
    yield from plugin_statements(file, settings.get("required_plugins", ""), settings.get("addopts", ""))
    yield from _flit(file, table(tool, "flit", "metadata"))
    dynamic = table(tool, "setuptools", "dynamic")
    for key, scope in (("dependencies", None), ("optional-dependencies", "other")):
        for name in _files(dynamic.get(key, {})):
            yield file.states("include", f"-r {name}", file.line_of("[tool.setuptools.dynamic", name), scope)  # type: ignore[arg-type]
    # Last: invalid groups end the reading.
    pyproject = Pyproject.model_validate({"dependency-groups": table(data, "dependency-groups")})
    for group in pyproject.groups:
        for text in pyproject.group(group, file.path):
            yield file.states("package", text, file.line_of("[dependency-groups]", text), scope_of_group(group))


def _uv(file: SourceFile, uv: Mapping[str, Any]) -> Statements:
    for text in texts(uv.get("dev-dependencies", [])):
        yield file.states("package", text, file.line_of("[tool.uv]", text), "test")
    for key in ("constraint-dependencies", "override-dependencies"):
        for text in texts(uv.get(key, [])):
            yield file.states("constraint", text, file.line_of("[tool.uv]", key, text))
    yield from index_statements(file, uv.get("index"))
    for name, value in table(uv, "sources").items():
        line = file.line_of("[tool.uv.sources", f"\n{name}") + 1
        for fields in map(table, value if isinstance(value, list) else [value]):
            yield from source_statements(file, name, fields, line, None)


def _project(file: SourceFile, project: Mapping[str, Any]) -> Statements:
    header = "[project]"
    if name := project.get("name"):
        yield file.states("project", name, file.line_of(header, "name"))
    if version := project.get("version"):
        yield file.states("version", version, file.line_of(header, "version"))
    if python := project.get("requires-python"):
        yield file.states("python", python, file.line_of(header, "requires-python"))
    licence = project.get("license")
    if text := licence if isinstance(licence, str) else table(licence).get("text"):
        yield file.states("licence", str(text).strip().partition("\n")[0], file.line_of(header, "license"))
    for text in texts(project.get("dependencies", [])):
        yield file.states("package", text, file.line_of("dependencies", text))
    for text in texts(project.get("classifiers", [])):
        yield from classifier(file, text, file.line_of(header, text))
    yield from _groups(file, "optional-dependencies", table(project, "optional-dependencies"))


def _groups(file: SourceFile, header: str, groups: Mapping[str, Any]) -> Statements:
    for group, members in groups.items():
        for text in texts(members):
            yield file.states("package", text, file.line_of(header, group, text), scope_of_group(group))


def _flit(file: SourceFile, metadata: Mapping[str, Any]) -> Statements:
    header = "[tool.flit.metadata]"
    if name := metadata.get("dist-name") or metadata.get("module"):
        yield file.states("project", name, file.line_of(header, str(name)))
    if python := metadata.get("requires-python"):
        yield file.states("python", python, file.line_of(header, "requires-python"))
    scopes: list[tuple[str, Scope | None]] = [("requires", None), ("dev-requires", "test")]
    for key, scope in scopes:
        for text in texts(metadata.get(key, [])):
            yield file.states("package", text, file.line_of(header, text), scope)
    yield from _groups(file, "requires-extra", table(metadata, "requires-extra"))


def _files(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from texts(value.get("file", []))
        for inner in value.values():
            if isinstance(inner, dict):
                yield from texts(inner.get("file", []))
