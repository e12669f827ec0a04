"""`Dockerfile`s, with all their stages."""

from __future__ import annotations

import contextlib
import io
import shlex
from string import Template

from dockerfile_parse import DockerfileParser

from reprokit.importing.installs import script_statements
from reprokit.importing.model import SourceFile, Statements
from reprokit.untrusted.documents import parsed

MOST = 1 << 20
_INSTRUCTIONS = 2000
_LONGEST = 1000  # characters of a variable's value
_MOST_VARIABLES = 5000  # that one instruction reads


def reads(path: str, size: int) -> bool:
    name = path.rpartition("/")[2].lower()
    if path.count("/") > 1:
        return False
    return name in ("dockerfile", "containerfile") or name.startswith("dockerfile.") or name.endswith(".dockerfile")


def read(file: SourceFile) -> Statements:
    parser = DockerfileParser(fileobj=io.BytesIO(file.text.encode("utf-8", "replace")), env_replace=False)
    known: dict[str, str] = {}
    stages: dict[str, str] = {}
    base, line = "", 1
    for step in parser.structure[:_INSTRUCTIONS]:
        instruction, value, here = step["instruction"], step["value"], step["startline"] + 1
        if instruction == "FROM":
            words = [word for word in value.split() if not word.startswith("--")]
            named = _expanded(words[0], known) if words else ""
            base, line = stages.get(named, named), here
            if len(words) == 3 and words[1].lower() == "as":
                stages[words[2]] = base
        elif instruction in ("ARG", "ENV"):
            for name, text in _assignments(value):
                known[name] = _expanded(text, known)[:_LONGEST]
                if instruction == "ENV" and "$" not in known[name]:
                    yield file.states("env", f"{name}={known[name]}", here)
        elif instruction == "WORKDIR":
            yield file.states("workdir", _expanded(value, known), here)
        elif instruction == "RUN":
            lines = file.text.splitlines()[step["startline"] : step["endline"] + 1]
            yield from script_statements(file.part(_script(lines, step["value"], known), here))
    if base and "$" not in base:  # of the last stage, which is the image
        yield file.states("base", base, line)


def _expanded(text: str, known: dict[str, str]) -> str:
    """The text with the values of its variables. They may name each other, so it is limited."""
    return Template(text).safe_substitute(known) if text.count("$") <= _MOST_VARIABLES else text


def _assignments(value: str) -> list[tuple[str, str]]:
    """The names and values of ENV or ARG, also of the old form `ENV NAME VALUE`."""
    words, found = value.split(), []
    if len(words) > 1 and "=" not in words[0]:
        return [(words[0], " ".join(words[1:]).strip("\"'"))]
    for word in words:
        name, equals, text = word.partition("=")
        if equals and name.isidentifier():
            found.append((name, text.strip("\"'")))
    return found


def _script(lines: list[str], value: str, known: dict[str, str]) -> str:
    """The script of a RUN as a shell reads it, each line where it stands in the file."""
    if value.startswith("["):
        with contextlib.suppress(ValueError):
            return shlex.join(map(str, parsed(value)))
    # The builder drops lines of comments, which a shell would take for the end of the command.
    kept = ["\\" if line.lstrip().startswith("#") else line for line in lines]
    kept[0] = kept[0].lstrip()[len("RUN") :]
    return _expanded("\n".join(kept), known)
