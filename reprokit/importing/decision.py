"""The choices that a recipe is written from, each with its origins, its reason and the statements it overruled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date

from reprokit.importing.model import Origin
from reprokit.recipe.model import Sdist

_COUNTING = ("setuptools-scm", "pbr", "hatch-vcs", "poetry-dynamic-versioning", "versioningit", "flit-scm")


@dataclass(frozen=True)
class Overruled:
    """A statement that lost to another one."""

    value: str
    origin: Origin
    why: str


@dataclass(frozen=True)
class Choice:
    """One value of a recipe. `origins` is empty if no file states it."""

    value: str
    origins: tuple[Origin, ...] = ()
    why: str = ""
    lost: tuple[Overruled, ...] = ()


@dataclass(frozen=True)
class Question:
    """A question for the reader of the recipe that no file answers."""

    text: str
    origin: Origin | None = None


@dataclass(frozen=True)
class PythonBase:
    """A distribution and its Python."""

    distro: str
    python: str


@dataclass(frozen=True)
class Decision:
    """Everything but the exact versions. `requirements` are of PEP 508 by project, `preferred` versions by project.

    `locked` are the versions of lock files, by project, with their lines; `preferred` has one of them.
    `optional` are the projects that only an optional part of the code needs. `imports` are modules by their project.
    `cuda` are the versions of CUDA that files state, if no code is compiled for it.
    `unused` are statements that no part of the recipe uses.
    """

    name: str
    day: date
    base: PythonBase
    base_choice: Choice
    requirements: Mapping[str, Choice] = field(default_factory=dict)
    optional: frozenset[str] = frozenset()
    preferred: Mapping[str, str] = field(default_factory=dict)
    locked: Mapping[str, tuple[Choice, ...]] = field(default_factory=dict)
    indexes: tuple[str, ...] = ()
    apt: tuple[Choice, ...] = ()
    env: tuple[Choice, ...] = ()
    pins: Mapping[str, Choice] = field(default_factory=dict)
    cxx: Choice | None = None
    architectures: tuple[Choice, ...] = ()
    project: str | None = None
    project_folder: str = ""
    version: str = ""
    compiled: tuple[Choice, ...] = ()
    python_paths: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    imports: Mapping[str, str] = field(default_factory=dict)
    tests: bool = False
    commands: tuple[Choice, ...] = ()
    submodules: bool = False
    title: Choice | None = None
    licence: Choice | None = None
    questions: tuple[Question, ...] = ()
    cuda: tuple[Choice, ...] = ()
    unused: tuple[Overruled, ...] = ()

    @property
    def counts_version(self) -> bool:
        """Whether the project's version is counted from git's history, which the image does not have."""
        return any(name in self.requirements for name in _COUNTING)


@dataclass(frozen=True)
class Versions:
    """Exact versions by project, except those of `sdists`. `questions` list versions that are not those of the day.

    `left_out` are projects that only an optional part needs and that do not fit. The builds of sdists need `apt`.
    """

    pins: Mapping[str, str]
    sdists: tuple[Sdist, ...] = ()
    questions: tuple[Question, ...] = ()
    later: Mapping[str, str] = field(default_factory=dict)
    left_out: frozenset[str] = frozenset()
    apt: tuple[Choice, ...] = ()


@dataclass(frozen=True)
class ImportedRecipe:
    """The recipe's text and its sources. `fitted` are the pins that were changed to pass `check`."""

    text: str
    decision: Decision
    versions: Versions
    fitted: tuple[str, ...] = ()
