"""Files for images: Dockerfiles with all their stages, `devcontainer.json` and the files of repo2docker."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator
from string import Template

import json5
from e2b_dockerfile_utils import DockerfileInstruction, parse_dockerfile_ast

from reprokit.importing.installs import script_statements
from reprokit.importing.model import SourceFile, Statements
from reprokit.importing.toml_tables import table, texts

_INSTRUCTIONS = 2000
_LONGEST = 1000  # characters of a variable's value
_SHOWN = 100
_MOST_VARIABLES = 5000  # that one instruction reads


def read_dockerfile(file: SourceFile) -> Statements:
    try:
        steps = parse_dockerfile_ast(file.text).instructions[:_INSTRUCTIONS]
    except ValueError as error:
        yield file.states("unread", str(error)[:_SHOWN], getattr(error, "line", None) or 1)
        return
    lines = file.text.split("\n")
    variables: dict[str, str] = {}
    stages: dict[str, str] = {}
    bases: list[tuple[str, int]] = []
    for step in steps:
        line, words = step.start_line, step.args
        if step.name == "FROM" and words:
            named = _expanded(words[0], variables)
            bases.append((stages.get(named, named), line))
            if len(words) == 3 and words[1].lower() == "as":
                stages[words[2]] = bases[-1][0]
        elif step.name in ("ARG", "ENV"):
            pairs = zip(words[::3], words[1::3], strict=False) if step.name == "ENV" else _defaults(words)
            for name, text in pairs:
                variables[name] = _expanded(_unquoted(text), variables)[:_LONGEST]
                if step.name == "ENV" and name.isidentifier() and "$" not in variables[name]:
                    yield file.states("env", f"{name}={variables[name]}", line)
        elif step.name == "RUN":
            yield from script_statements(file.part(_script(lines, step, variables), line))
        elif step.name == "ADD" and "://" in step.original:
            added = step.original.split(None, 1)[1]
            yield file.states("unread", f"what this adds: {added[:_SHOWN]}", line)
    # The last stage is the image, so it comes first. A stage that continues another one has its base.
    last: dict[str, int] = {}
    for image, line in reversed(bases):
        last.setdefault(image, line)
    for image, line in last.items():
        if image and "$" not in image:
            yield from image_statements(file, image, line)


def image_statements(file: SourceFile, image: str, line: int) -> Statements:
    """A base image, with the Python, CUDA or torch that its tag names."""
    yield file.states("base", image, line)
    name, _, tag = image.partition("@")[0].rpartition("/")[2].partition(":")
    number = tag.partition("-")[0]
    series = ".".join(number.split(".")[:2])
    if name in ("python", "pypy") and number.startswith("3."):
        yield file.states("python", f"=={series}.*", line)
    elif name == "cuda" and "." in series:
        yield file.states("cuda", f"=={series}.*", line)
    elif name == "pytorch" and "." in series and "nvidia/pytorch" not in image:  # NVIDIA's tags are months
        yield file.states("package", f"torch=={number}", line)
    for part in tag.split("-")[1:]:
        if part.startswith("cuda") and part[4:5].isdigit():
            yield file.states("cuda", f"=={part.removeprefix('cuda')}.*", line)


def _expanded(text: str, variables: dict[str, str]) -> str:
    """The text with the values of its variables; their number is limited, as they may name each other."""
    return Template(text).safe_substitute(variables) if text.count("$") <= _MOST_VARIABLES else text


def _defaults(words: list[str]) -> Iterator[tuple[str, str]]:
    """The arguments of an ARG that have a default."""
    for word in words:
        name, equals, text = word.partition("=")
        if equals:
            yield name, text


def _unquoted(text: str) -> str:
    with contextlib.suppress(ValueError):  # a quotation mark that is not closed
        return " ".join(shlex.split(text))
    return text.strip("\"'")


def _script(lines: list[str], step: DockerfileInstruction, variables: dict[str, str]) -> str:
    """The script of a RUN as a shell reads it, with the line numbers of the file."""
    if step.json:
        return shlex.join(step.args)
    inside = sum(heredoc.content.count("\n") + 1 for heredoc in step.heredocs)
    own, body = lines[step.start_line - 1 : step.end_line - inside], lines[step.end_line - inside : step.end_line]
    # The builder drops comment lines; a shell would end the command there.
    kept = ["\\" if line.lstrip().startswith("#") else line for line in own]
    kept[0] = kept[0].lstrip()[len("RUN") :]
    script = _without_options("\n".join(kept))
    if step.heredocs and script.strip().startswith("<<"):  # the heredoc is the script
        script = "\n" * len(own) + "\n".join(line.lstrip("\t") for line in body[:-1])
    elif body:
        script += "\n" + "\n".join(line.lstrip("\t") for line in body)
    return _expanded(script, variables)


def _without_options(script: str) -> str:
    """The script without the builder's options, such as `--mount=type=cache,target=/x`."""
    place = end = 0
    while True:
        while end < len(script) and (script[end].isspace() or script[end] == "\\"):
            end += 1
        if not script.startswith("--", end):
            return "\n" * script.count("\n", 0, end) + script[end:] if place else script
        while end < len(script) and not script[end].isspace():
            end += 1
        place = end


def read_devcontainer(file: SourceFile) -> Statements:
    data = table(json5.loads(file.text))
    if isinstance(image := data.get("image"), str) and "$" not in image:
        yield file.states("base", image, file.line_of('"image"'))
    for feature, options in table(data, "features").items():
        name, version = feature.rpartition("/")[2].partition(":")[0], table(options).get("version")
        if name == "python" and str(version)[:1] == "3":
            yield file.states("python", f"=={'.'.join(str(version).split('.')[:2])}.*", file.line_of(feature))
        if name == "nvidia-cuda" and table(options).get("cudaVersion"):
            yield file.states("cuda", options["cudaVersion"], file.line_of(feature))
    for key in ("onCreateCommand", "updateContentCommand", "postCreateCommand"):
        command = data.get(key)
        script = (
            " ".join(texts(command))
            if isinstance(command, (str, list))
            else "\n".join(map(str, table(command).values()))
        )
        yield from script_statements(file.part(script, file.line_of(f'"{key}"')))


_FOLDERS = ("", ".binder", "binder")


def read_repo2docker(file: SourceFile) -> Statements:
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
