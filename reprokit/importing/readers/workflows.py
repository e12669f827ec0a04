"""Workflows of GitHub Actions, GitLab, CircleCI and Travis: the tested Python versions, packages and commands."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from reprokit.importing.installs import script_statements
from reprokit.importing.model import SourceFile, Statements
from reprokit.importing.readers.images import image_statements
from reprokit.importing.toml_tables import table, texts
from reprokit.recipe import yaml

_LINT = ("lint", "doc", "release", "publish", "deploy", "format", "style", "codeql", "stale", "label")


def read(file: SourceFile) -> Statements:
    if any(word in file.name for word in _LINT):
        return
    readers = {".travis.yml": _travis, ".gitlab-ci.yml": _gitlab, ".circleci/config.yml": _circleci}
    yield from readers.get(file.path, _github)(file, yaml.read(file.text, file.path))


def _jobs(jobs: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The jobs that run the code."""
    return {name: table(job) for name, job in jobs.items() if not any(word in str(name).lower() for word in _LINT)}


def _github(file: SourceFile, document: yaml.Document) -> Statements:
    for job, content in _jobs(table(document.data, "jobs")).items():
        matrix = table(content, "strategy", "matrix")
        for key in ("python-version", "python_version", "python"):
            yield from _versions(file, document, ("jobs", job, "strategy", "matrix", key), matrix.get(key))
        for number, step in enumerate(content.get("steps") or []):
            path: yaml.Path = ("jobs", job, "steps", number)
            version = table(step, "with").get("python-version")
            yield from _versions(file, document, (*path, "with", "python-version"), version)
            yield from _commands(file, document, (*path, "run"), table(step).get("run"))


def _travis(file: SourceFile, document: yaml.Document) -> Statements:
    data = table(document.data)
    yield from _versions(file, document, ("python",), data.get("python"))
    for number, name in enumerate(texts(table(data, "addons", "apt").get("packages", []))):
        yield file.states("apt", name, document.line(("addons", "apt", "packages", number)))
    for key in ("before_install", "install", "before_script", "script"):
        yield from _commands(file, document, (key,), data.get(key))


def _gitlab(file: SourceFile, document: yaml.Document) -> Statements:
    """The images and scripts of all jobs, and the defaults outside of them."""
    jobs = [((job,), content) for job, content in _jobs(table(document.data)).items()]
    for place, job in [((), table(document.data)), *jobs]:
        yield from _image(file, table(job, "image").get("name") or job.get("image"), document.line((*place, "image")))
        for key in ("before_script", "script"):
            yield from _commands(file, document, (*place, key), job.get(key))


def _circleci(file: SourceFile, document: yaml.Document) -> Statements:
    for job, content in _jobs(table(document.data, "jobs")).items():
        for key in ("docker", "steps"):
            entries = content.get(key)
            for number, entry in enumerate(entries if isinstance(entries, list) else []):
                place = ("jobs", job, key, number)
                yield from _image(file, table(entry).get("image"), document.line((*place, "image")))
                yield from _commands(file, document, (*place, "run"), table(entry).get("run"))
                yield from _commands(file, document, (*place, "run", "command"), table(entry, "run").get("command"))


def _commands(file: SourceFile, document: yaml.Document, path: yaml.Path, value: Any) -> Statements:
    """The statements of the commands at `path`: a text, or a list of texts."""
    for number, command in enumerate(texts(value)):
        line = document.line((*path, number) if isinstance(value, list) else path)
        yield from script_statements(file.part(command, line + ("\n" in command)), runs=True)


def _image(file: SourceFile, image: Any, line: int) -> Statements:
    """The image of a job. Its Python counts as tested."""
    for statement in image_statements(file, image, line) if isinstance(image, str) and "$" not in image else ():
        tested = statement.value.removeprefix("==").removesuffix(".*")
        yield replace(statement, subject="tested", value=tested) if statement.subject == "python" else statement


def _versions(file: SourceFile, document: yaml.Document, path: yaml.Path, value: Any) -> Statements:
    """Tested versions, from the text of the file: YAML reads 3.10 as 3.1."""
    for number, version in enumerate(value if isinstance(value, list) else [value]):
        place = (*path, number) if isinstance(value, list) else path
        text = document.text(place) or str(version)
        parts = text.strip("'\"").split(".")
        if parts[0] == "3" and len(parts) > 1 and parts[1].isdigit():
            yield file.states("tested", f"3.{parts[1]}", document.line(place))
