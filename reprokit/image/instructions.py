"""What an own block may write into a Dockerfile: RUN, ENV, WORKDIR, and COPY from stages of the same Dockerfile.

Builders read Dockerfiles differently (heredocs, escapes, continued lines). So the text must be in a form that all read
alike; everything else is refused, harmless or not.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from reprokit.errors import UsageError
from reprokit.recipe.fields import container_path

_MOST = 100  # instructions; images have at most 127 layers
_PATH = r"[A-Za-z0-9/_][A-Za-z0-9._/:@+~=-]*"
_COPY = re.compile(rf"COPY --from=([a-z][a-z0-9._-]*)((?: {_PATH}){{2,}})")
_ALLOWED = "own blocks have RUN, ENV NAME=VALUE, WORKDIR /PATH, COPY --from=STAGE A B"
_ENV = re.compile(r"""ENV(?: +[A-Za-z_][A-Za-z0-9_]*=(?:"(?:[^"\\]|\\.)*"|'[^']*'|[^\s"'\\]*))+ *""")


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
            word = line.partition(" ")[0]  # whole on the first line, which some parsers read without the next
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
        if problem := _problem("".join([*pieces, line]), stages):
            raise refuse(line, problem, _ALLOWED)
        if count > _MOST:
            raise refuse(line, f"has more than {_MOST} instructions")
        pieces = []
    return "\n".join([*lines, ""]) if lines else ""


def _problem(instruction: str, stages: Collection[str]) -> str:
    """What is wrong with an instruction on one line, or ""."""
    word, _, rest = instruction.partition(" ")
    if word == "RUN" and (not rest.strip() or rest.lstrip().startswith("-")):
        return "has a RUN with an option"
    if word == "ENV" and not _ENV.fullmatch(instruction):
        return "has an ENV that is not NAME=VALUE, with quotes where it has spaces"
    if word == "WORKDIR":
        try:
            container_path(rest)
        except ValueError as error:
            return f"has a WORKDIR that is not allowed: {error}"
    if word == "COPY":
        match = _COPY.fullmatch(instruction)
        if match is None:
            return "has a COPY of another form"
        if match[1] not in stages:
            return f"copies from {match[1]!r}, which is not a stage before it (stages: {', '.join(stages) or 'none'})"
    return ""
