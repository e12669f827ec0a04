"""What the files of a repository state, each statement with the file and line that it comes from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

# `package` and `constraint` are requirements of PEP 508, `locked` is an exact one of a lock file. `python`, `cuda`,
# `cudnn`, `gcc`, `cmake`, `distro` and `cxx` are version specifiers or versions. `tested` is a Python that CI or the
# authors try. `test` is a file in which pytest finds a test. `module` is a top-level module that the project
# installs; its scope is `build` if it is compiled, and `other` if it is compiled in some environments. `source` is a
# git address with an optional @commit. `include` is another file of the same format.
Subject = Literal[
    "package", "constraint", "locked", "conda", "apt", "index", "source", "include",
    "python", "tested", "cuda", "cudnn", "gcc", "cmake", "distro", "cxx", "architecture",
    "base", "env", "workdir", "library", "submodule", "extension", "import", "module", "optional", "test",
    "project", "version", "title", "licence", "address", "command", "lfs", "unread",
]  # fmt: skip
# What a statement is for: to run the code, to build it, to test it, or something that a recipe can do without.
Scope = Literal["run", "build", "test", "example", "other"]


class Origin(NamedTuple):
    """A line of a file of the repository; lines count from 1."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Statement:
    """One thing that a file states. `extra` is the optional feature of the project that it belongs to."""

    subject: Subject
    value: str
    origin: Origin
    format: str
    scope: Scope = "run"
    extra: str = ""


@dataclass(frozen=True)
class SourceFile:
    """One file of the repository as text, for the reader of its format."""

    path: str
    text: str
    format: str
    scope: Scope = "run"

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def folder(self) -> str:
        return self.path.rpartition("/")[0]

    def states(
        self, subject: Subject, value: object, line: int = 1, scope: Scope | None = None, extra: str = ""
    ) -> Statement:
        """A statement of this file."""
        origin = Origin(self.path, max(1, line))
        return Statement(subject, str(value).strip(), origin, self.format, scope or self.scope, extra)

    def line_of(self, *texts: str) -> int:
        """The first line from which all `texts` follow each other in the file, as far as they are found."""
        place, line = 0, 1
        for text in texts:
            found = self.text.find(text, place)
            if found < 0:
                break
            place, line = found + len(text), self.text.count("\n", 0, found) + 1
        return line

    def part(self, text: str, line: int) -> PartOfFile:
        """A part of the file in another format, such as a shell block, which begins at `line`."""
        return PartOfFile(self.path, text, self.format, self.scope, line - 1)


@dataclass(frozen=True)
class PartOfFile(SourceFile):
    """A part of a file that is `above` lines below its beginning."""

    above: int = 0

    def states(
        self, subject: Subject, value: object, line: int = 1, scope: Scope | None = None, extra: str = ""
    ) -> Statement:
        return super().states(subject, value, line + self.above, scope, extra)

    def part(self, text: str, line: int) -> PartOfFile:
        return replace(super().part(text, line), above=self.above + line - 1)


Statements = Iterator[Statement]
