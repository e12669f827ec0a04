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
_SHOWN = 100
_MOST_VARIABLES = 5000  # that one instruction reads


def reads(path: str, size: int) -> bool:
    name = path.rpartition("/")[2].lower()
    if path.count("/") > 1:
        return False
    return name in ("dockerfile", "containerfile") or name.startswith("dockerfile.") or name.endswith(".dockerfile")


def read(file: SourceFile) -> Statements:
    text, bodies = _without_heredocs(file.text)
    parser = DockerfileParser(fileobj=io.BytesIO(text.encode("utf-8", "replace")), env_replace=False)
    lines = text.split("\n")
    known: dict[str, str] = {}
    stages: dict[str, str] = {}
    bases: list[tuple[str, int]] = []
    for step in parser.structure[:_INSTRUCTIONS]:
        instruction, value, here = step["instruction"], step["value"], step["startline"] + 1
        if instruction == "FROM":
            words = [word for word in value.split() if not word.startswith("--")]
            named = _expanded(words[0], known) if words else ""
            bases.append((stages.get(named, named), here))
            if len(words) == 3 and words[1].lower() == "as":
                stages[words[2]] = bases[-1][0]
        elif instruction in ("ARG", "ENV"):
            for name, text in _assignments(value):
                known[name] = _expanded(text, known)[:_LONGEST]
                if instruction == "ENV" and "$" not in known[name]:
                    yield file.states("env", f"{name}={known[name]}", here)
        elif instruction == "WORKDIR":
            yield file.states("workdir", _expanded(value, known), here)
        elif instruction == "RUN":
            body = bodies.get(step["endline"], "")
            script = _script(lines[step["startline"] : step["endline"] + 1], value, known, body)
            yield from script_statements(file.part(script, here))
        elif instruction == "ADD" and "://" in value:
            yield file.states("unread", f"what this adds: {value[:_SHOWN]}", here)
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
    elif name == "pytorch" and "." in series and "nvidia/pytorch" not in image:  # whose tags are months
        yield file.states("package", f"torch=={number}", line)
    for part in tag.split("-")[1:]:
        if part.startswith("cuda") and part[4:5].isdigit():
            yield file.states("cuda", f"=={part.removeprefix('cuda')}.*", line)


def _without_heredocs(text: str) -> tuple[str, dict[int, str]]:
    """The file with empty lines in place of heredocs; these, with their last line, by the line that they follow."""
    lines, bodies = text.splitlines(), dict[int, str]()
    left = iter(enumerate(lines))
    instruction = ""
    for number, line in left:
        if not (comment := line.lstrip().startswith("#")):
            instruction = instruction or line.split(None, 1)[0].upper() if line.strip() else instruction
            ends = _heredocs(line) if instruction in ("RUN", "COPY", "ADD") else []
            body: list[str] = []
            for end in ends:
                for inner, part in left:
                    lines[inner] = ""
                    body.append(part.lstrip("\t"))
                    if body[-1] == end:
                        break
            if body:
                bodies[number] = "\n".join(body)
        if not comment and not line.rstrip().endswith("\\"):
            instruction = ""
    return "\n".join(lines), bodies


def _heredocs(line: str) -> list[str]:
    """The words that end the heredocs that begin in a line: `<<EOF`, `<<-EOF`, `<<"EOF"`."""
    found = []
    for word in line.split():
        mark = word.lstrip("0123456789")
        if mark.startswith("<<") and not mark.startswith("<<<"):
            end = mark[2:].removeprefix("-").strip("\"'")
            if end.isidentifier():
                found.append(end)
    return found


def _expanded(text: str, known: dict[str, str]) -> str:
    """The text with the values of its variables. They may name each other, so it is limited."""
    return Template(text).safe_substitute(known) if text.count("$") <= _MOST_VARIABLES else text


def _assignments(value: str) -> list[tuple[str, str]]:
    """The names and values of ENV or ARG, also of the old form `ENV NAME VALUE`."""
    words, found = value.split(), []
    if len(words) > 1 and "=" not in words[0]:
        return [(words[0], " ".join(words[1:]).strip("\"'"))]
    with contextlib.suppress(ValueError):  # a quotation mark that is not closed
        words = shlex.split(value)
    for word in words:
        name, equals, text = word.partition("=")
        if equals and name.isidentifier():
            found.append((name, text.strip("\"'")))
    return found


def _script(lines: list[str], value: str, known: dict[str, str], body: str) -> str:
    """The script of a RUN as a shell reads it, each line where it stands in the file. `body` are its heredocs."""
    if value.startswith("["):
        with contextlib.suppress(ValueError):
            return shlex.join(map(str, parsed(value)))
    # The builder drops lines of comments, which a shell would take for the end of the command.
    kept = ["\\" if line.lstrip().startswith("#") else line for line in lines]
    kept[0] = kept[0].lstrip()[len("RUN") :]
    script = _without_options("\n".join(kept))
    if body and script.strip().startswith("<<"):  # the heredoc is the script
        script = "\n" * len(lines) + body.rpartition("\n")[0]
    elif body:
        script += f"\n{body}"
    return _expanded(script, known)


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
