"""The statements of a repository's files, each with its file and line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from pydantic import TypeAdapter, ValidationError

# `package` and `constraint` are requirements of PEP 508, `locked` is an exact one of a lock file. `python`, `cuda`,
# `cudnn`, `gcc`, `cmake`, `distro` and `cxx` are version specifiers or versions. `tested` is a Python that CI or the
# authors try. `test` is a file in which pytest finds a test. `module` is a top-level module that the project
# installs; its scope is `build` if it is compiled, and `other` if it is compiled in some environments. `source` is a
# git address with an optional @commit. `include` is another file of the same format.
Subject = Literal[
    "package", "constraint", "locked", "conda", "apt", "index", "source", "include",
    "python", "tested", "cuda", "cudnn", "gcc", "cmake", "distro", "cxx", "architecture",
    "base", "env", "library", "submodule", "extension", "import", "module", "test",
    "project", "version", "title", "licence", "command", "lfs", "unread",
]  # fmt: skip
# The purpose of a statement: running, building or testing the code, or something that a recipe does not need.
Scope = Literal["run", "build", "test", "example", "other"]


class Origin(NamedTuple):
    """A line of a file of the repository; lines count from 1."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Statement:
    """One thing that a file states."""

    subject: Subject
    value: str
    origin: Origin
    format: str
    scope: Scope = "run"


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

    def states(self, subject: Subject, value: object, line: int = 1, scope: Scope | None = None) -> Statement:
        """A statement of this file."""
        origin = Origin(self.path, max(1, line))
        return Statement(subject, str(value).strip(), origin, self.format, scope or self.scope)

    def line_of(self, *texts: str) -> int:
        """The line of the last of `texts`, searched for one after the other; the search ends at a missing one."""
        place, line = 0, 1
        for text in texts:
            position = self.text.find(text, place)
            if position < 0:
                break
            place, line = position + len(text), self.text.count("\n", 0, position) + 1
        return line

    def part(self, text: str, line: int) -> PartOfFile:
        """A part of the file in another format, such as a shell block, which begins at `line`."""
        return PartOfFile(self.path, text, self.format, self.scope, line - 1)


@dataclass(frozen=True)
class PartOfFile(SourceFile):
    """A part of a file; `above` is the number of lines before it."""

    above: int = 0

    def states(self, subject: Subject, value: object, line: int = 1, scope: Scope | None = None) -> Statement:
        return super().states(subject, value, line + self.above, scope)

    def part(self, text: str, line: int) -> PartOfFile:
        return replace(super().part(text, line), above=self.above + line - 1)


Statements = Iterator[Statement]


_TEST = ("test", "tests", "testing", "unittest", "pytest", "dev", "develop", "development", "ci", "all_dev")
_OTHER = ("doc", "docs", "documentation", "readthedocs", "rtd", "website", "lint", "linting", "style", "format",
          "typing", "mypy", "release", "quality", "pre-commit", "precommit", "build", "publish", "optional", "external",
          "extra", "extras")  # fmt: skip
_EXAMPLE = ("example", "examples", "demo", "demos", "tutorial", "tutorials", "notebooks", "bench", "benchmark",
            "benchmarks", "perf")  # fmt: skip
# Folders of tests and of CI.
_TEST_FOLDERS = {*_TEST[:4], "ci", "continuous_integration"}


_DATA = ("data", "fixtures", "testdata", "test_data", "resources", "cases", "snippets", "samples")
# Third-party code that repositories include.
VENDORED = {"third_party", "thirdparty", "3rdparty", "3rd_party", "external", "extern", "vendor", "vendored", "_vendor",
            "_vendored", "submodules", "site-packages"}  # fmt: skip
# Folders of repo2docker, and the files of the root that it ignores beside one of them.
BINDER = ("binder/", ".binder/")
BINDER_REPLACES = ("runtime.txt", "apt.txt", "postBuild")


def scope_of_group(name: str) -> Scope:
    """The scope of an extra or a dependency group, by its name. Unknown names are optional features."""
    words = _words(name)
    return "test" if words & set(_TEST) and not words & set(_OTHER) else "other"


def scope_of_path(path: str) -> Scope:
    """The purpose of a file, by its folders and, for lists of requirements, by its name."""
    *parents, name = path.lower().split("/")
    stem, folders = name.rpartition(".")[0], {folder.removeprefix(".") for folder in parents}
    if folders & _TEST_FOLDERS and folders & set(_DATA):
        return "other"
    for group, scope in ((_OTHER, "other"), (_EXAMPLE, "example"), (_TEST_FOLDERS, "test")):
        if folders & set(group):
            return scope  # type: ignore[return-value]
    if name.endswith((".txt", ".in", ".pip")):
        words = _words(stem)
        if words & set(_OTHER):
            return "other"
        if words & set(_TEST):
            return "test"
        if words & set(_EXAMPLE):
            return "example"
    return "test" if stem == "conftest" or stem.startswith("test_") or stem.endswith("_test") else "run"


def _words(name: str) -> set[str]:
    return set(name.lower().replace("-", " ").replace("_", " ").replace(".", " ").split())


def accepts(field: Any, value: str) -> bool:
    """Whether a value is valid for a field's type."""
    try:
        TypeAdapter(field).validate_python(value)
    except ValidationError:
        return False
    return True
