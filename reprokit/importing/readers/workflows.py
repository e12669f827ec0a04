"""Runs of GitHub Actions, GitLab, CircleCI and Travis: the Python versions, packages and commands that they prove."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from reprokit.importing.installs import script_statements
from reprokit.importing.model import SourceFile, Statements
from reprokit.importing.readers.dockerfile import image_statements
from reprokit.importing.toml_tables import table, texts
from reprokit.recipe import yaml

MOST = 256 << 10
_LINT = ("lint", "doc", "release", "publish", "deploy", "format", "style", "codeql", "stale", "label")


_FILES = (".travis.yml", ".gitlab-ci.yml", ".circleci/config.yml")


def reads(path: str, size: int) -> bool:
    return path in _FILES or (path.startswith(".github/workflows/") and path.endswith((".yml", ".yaml")))


def read(file: SourceFile) -> Statements:
    if any(word in file.name for word in _LINT):
        return
    document = yaml.read(file.text, file.path)
    if file.path == ".travis.yml":
        yield from _travis(file, document)
    elif file.path == ".gitlab-ci.yml":
        yield from _gitlab(file, document)
    elif file.path == ".circleci/config.yml":
        yield from _circleci(file, document)
    else:
        yield from _github(file, document)


def _github(file: SourceFile, document: yaml.Document) -> Statements:
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


def _gitlab(file: SourceFile, document: yaml.Document) -> Statements:
    """The images and scripts of all jobs, and of what stands outside of them for all."""
    jobs = {(job,): table(content) for job, content in table(document.data).items() if isinstance(content, dict)}
    for place, job in [((), table(document.data)), *jobs.items()]:
        if any(word in str(part).lower() for part in place for word in _LINT):
            continue
        image = table(job, "image").get("name") or job.get("image")
        yield from _image(file, image, document.line((*place, "image")))
        for key in ("before_script", "script"):
            for number, command in enumerate(texts(job.get(key, []))):
                where = (*place, key, number) if isinstance(job[key], list) else (*place, key)
                yield from script_statements(file.part(command, document.line(where)), runs=True)


def _circleci(file: SourceFile, document: yaml.Document) -> Statements:
    for job, content in table(document.data, "jobs").items():
        if any(word in job.lower() for word in _LINT):
            continue
        for key in ("docker", "steps"):
            entries = table(content).get(key)
            for number, entry in enumerate(entries if isinstance(entries, list) else []):
                place = ("jobs", job, key, number)
                yield from _image(file, table(entry).get("image"), document.line((*place, "image")))
                where = (*place, "run", "command") if table(entry, "run") else (*place, "run")
                run = table(entry, "run").get("command") or table(entry).get("run")
                if isinstance(run, str):
                    line = document.line(where) + (1 if "\n" in run else 0)
                    yield from script_statements(file.part(run, line), runs=True)


def _image(file: SourceFile, image: Any, line: int) -> Statements:
    """The image of a job. Its Python is one that is tested."""
    for statement in image_statements(file, image, line) if isinstance(image, str) and "$" not in image else ():
        tested = statement.value.removeprefix("==").removesuffix(".*")
        yield replace(statement, subject="tested", value=tested) if statement.subject == "python" else statement


def _versions(file: SourceFile, document: yaml.Document, path: yaml.Path, value: Any) -> Statements:
    """Versions as they are written: YAML reads 3.10 as 3.1."""
    for number, one in enumerate(value if isinstance(value, list) else [value]):
        place = (*path, number) if isinstance(value, list) else path
        text = document.text(place) or str(one)
        parts = text.strip("'\"").split(".")
        if parts[0] == "3" and len(parts) > 1 and parts[1].isdigit():
            yield file.states("tested", f"3.{parts[1]}", document.line(place))
