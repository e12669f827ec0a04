"""Own blocks, whose templates may come from strangers: rendered in a separate process whose output is checked.

An own block may write RUN, ENV, WORKDIR, and COPY from stages of the same Dockerfile. Builders read Dockerfiles
differently (heredocs, escapes, continued lines). So the text must be in a form that all read alike; everything else is
refused, harmless or not.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Collection, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

import reprokit
from reprokit.errors import UsageError
from reprokit.host.command import Flood, exchanged
from reprokit.recipe import fields as f
from reprokit.recipe.blocks import OwnBlock, shared_template
from reprokit.untrusted.model import FrozenModel

# Wall-clock limit, for a process that sleeps. One that computes ends after 3 s of processor time.
_LIMIT_S = 120
_MOST = 4 << 20  # bytes of an answer
_NEUTRAL = "/"
_INCLUDES = ("compiler.j2", "driverless.j2", "expect.j2", "secrets.j2")
_PROGRAM = "import sys; sys.path.insert(0, sys.argv[1]); from reprokit.image.sandbox import main; main()"
_Component = Literal["contrib", "non-free", "non-free-firmware", "multiverse", "restricted", "universe"]
_MOST_INSTRUCTIONS = 100  # instructions; images have at most 127 layers
_PATH = r"[A-Za-z0-9/_][A-Za-z0-9._/:@+~=-]*"
_COPY = re.compile(rf"COPY --from=([a-z][a-z0-9._-]*)((?: {_PATH}){{2,}})")
_ALLOWED = "own blocks have RUN, ENV NAME=VALUE, WORKDIR /PATH, COPY --from=STAGE A B"
_ENV = re.compile(r"""ENV(?: +[A-Za-z_][A-Za-z0-9_]*=(?:"(?:[^"\\]|\\.)*"|'[^']*'|[^\s"'\\]*))+ *""")


class RenderedPart(FrozenModel):
    """The unchecked text of a part, and its calls of apt: packages and components."""

    text: str
    installs: tuple[tuple[tuple[f.AptPackage, ...], tuple[_Component, ...]], ...]


def render_own(block: OwnBlock, facts: Mapping[str, Any]) -> dict[str, RenderedPart]:
    """The parts `build` and `final` of an own block. Raises UsageError with the line of its template."""
    includes = {name: shared_template(name) for name in _INCLUDES}
    job = {"template": block.template, "includes": includes, "parts": {"build": facts, "final": facts}}
    answer = _answer(json.dumps(job))
    try:
        result = json.loads(answer)
        if "error" in result:
            where = f"{block.path}:{int(result['line'])}" if result["line"] else str(block.path)
            raise UsageError(f"block {block.spec.name}: {str(result['error'])[:500]}", where)
        parts = {name: RenderedPart.model_validate(result["parts"][name]) for name in ("build", "final")}
    except ValidationError as error:
        problem = f"block {block.spec.name} asks apt for what is not a package: {error.errors()[0].get('input')!r}"
        raise UsageError(problem, str(block.path)) from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise UsageError(
            f"block {block.spec.name} cannot be rendered: it takes too much time or memory",
            str(block.path),
            "use fewer nested loops",
        ) from None
    if parts["build"].text and not block.spec.build_from:
        raise UsageError(
            f"block {block.spec.name} has a part `build`, but its comment has no `build_from`",
            str(block.path),
            "write `build_from: image`, or `build_from: base` if it needs no block before it",
        )
    if not (parts["build"].text or parts["final"].text):
        raise UsageError(f"block {block.spec.name} writes nothing", str(block.path), "write a part `final`")
    return parts


@lru_cache(maxsize=64)
def _answer(job: str) -> bytes:
    """The answer of the process; empty if it was stopped."""
    # Without the user's environment, which may have secrets.
    environment = {key: os.environ[key] for key in ("LD_LIBRARY_PATH",) if key in os.environ}
    process = subprocess.Popen(
        [sys.executable, "-I", "-c", _PROGRAM, str(Path(reprokit.__file__).parent.parent)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=_NEUTRAL,
        env=environment,
        start_new_session=True,
    )
    try:
        return exchanged(process, job.encode(), _LIMIT_S, _MOST)[0]
    except (Flood, subprocess.TimeoutExpired):
        return b""
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream:
                stream.close()


def checked(text: str, where: str, stages: Collection[str]) -> str:
    """The text itself, complete instructions that end in a line break. Raises UsageError at the first other one.

    `where` is the block's file; `stages` are the stages that exist before the text.
    """
    lines = text.rstrip("\n").split("\n") if text.strip() else []
    pieces: list[str] = []  # of the current instruction
    count = 0

    def refuse(line: str, problem: str, hint: str = "") -> UsageError:
        return UsageError(f"an own block {problem}: {line[:100]}", where, hint)

    for number, line in enumerate(lines, 1):
        if not line.replace("\t", " ").isprintable():
            raise refuse(line, "has a control character")
        if not pieces:
            if not line.strip():
                continue
            if line.startswith("#"):
                if re.match(r"#\s*(escape|syntax|check)\s*=", line, re.IGNORECASE) or line.rstrip().endswith("\\"):
                    raise refuse(line, "has a comment that builders may read as a directive", "reword it")
                continue
            count += 1
            word = line.partition(" ")[0]  # complete on the first line, as some parsers read no further
            if word not in ("RUN", "ENV", "WORKDIR", "COPY"):
                raise refuse(line, f"has the instruction {word[:40]!r}", _ALLOWED)
        elif not line.strip() or line.lstrip().startswith("#"):
            raise refuse(line, "has an empty line or a comment in an instruction", "move it before the instruction")
        if "<<" in line:
            raise refuse(line, "has <<, which some builders read as a heredoc", "write lines with printf '%s\\n' ...")
        body = line.rstrip()
        if body.endswith("\\") and (body != line or body.endswith("\\\\")):
            raise refuse(line, "has a line whose end builders read differently", "end continued lines in a single \\")
        if body.endswith("\\"):
            pieces.append(body[:-1])
            if number == len(lines):
                raise refuse(line, "ends inside an instruction")
            continue
        if problem := _fault("".join([*pieces, line]), stages):
            raise refuse(line, problem, _ALLOWED)
        if count > _MOST_INSTRUCTIONS:
            raise refuse(line, f"has more than {_MOST_INSTRUCTIONS} instructions")
        pieces = []
    return "\n".join([*lines, ""]) if lines else ""


def _fault(instruction: str, stages: Collection[str]) -> str:
    """What is wrong with an instruction on one line, or ""."""
    word, _, argument = instruction.partition(" ")
    if word == "RUN" and (not argument.strip() or argument.lstrip().startswith("-")):
        return "has a RUN with an option"
    if word == "ENV" and not _ENV.fullmatch(instruction):
        return "has an ENV that is not NAME=VALUE, with quotes where it has spaces"
    if word == "WORKDIR":
        try:
            f.container_path(argument)
        except ValueError as error:
            return f"has a WORKDIR that is not allowed: {error}"
    if word == "COPY":
        match = _COPY.fullmatch(instruction)
        if match is None:
            return "has a COPY of another form"
        if match[1] not in stages:
            return f"copies from {match[1]!r}, which is not a stage before it (stages: {', '.join(stages) or 'none'})"
    return ""
