"""The decision: from what files state to one stack. A pure function."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import date

from packaging.utils import canonicalize_name

from reprokit.compat.distributions import Distributions, is_standard
from reprokit.compat.facts import Facts
from reprokit.importing.conda import split
from reprokit.importing.decision import Choice, Decision, Overruled, PythonBase, Question
from reprokit.importing.merge import Stated, merged, read
from reprokit.importing.model import Statement, Subject
from reprokit.importing.system_choice import apt_of, env_of, pins_of

_METADATA = ("pyproject", "setup.cfg", "setup.py")
_DECLARING = (*_METADATA, "requirements", "pipfile", "environment")
_TEST = re.compile(r"test_.+\.py|.+_test\.py")  # as pytest collects
_MOST_QUESTIONS = 60
_MOST_COMMANDS = 10


def decide(
    statements: Sequence[Statement],
    paths: Collection[str],
    submodules: Mapping[str, str],
    name: str,
    base: PythonBase,
    base_choice: Choice,
    day: date,
    facts: Facts,
    distributions: Distributions,
) -> Decision:
    """The stack for one Python. `paths` are the files of the repository, `submodules` its submodules."""
    folder = project_folder(statements)
    ours = [s for s in statements if s.format not in _METADATA or s.origin.file.rpartition("/")[0] == folder]
    project = _first([s for s in ours if s.value], "project") or _first(ours, "project")
    own = own_modules(paths, folder, {s.value for s in ours if s.subject == "module"})
    tests = any(_TEST.fullmatch(path.rpartition("/")[2]) for path in paths)
    scopes = {"run", *(("build",) if project else ()), *(("test",) if tests else ())}

    packages = [s for s in ours if s.subject == "package"]
    stated, questions = read([*packages, *_of_conda(ours, distributions)], base)
    if project:
        stated.pop(canonicalize_name(project.value), None)
    imported = _imported(ours, stated, own, distributions)
    requirements: dict[str, Choice] = {}
    has_declared = any(one.statement.format in _DECLARING for each in stated.values() for one in each)
    for key, each in stated.items():
        declared = [o for o in each if o.statement.format in _DECLARING and o.statement.scope in scopes]
        used = imported.distributions.get(key)
        if declared or (used and used.scope in scopes) or not has_declared:
            others = [o for o in each if o not in declared and (o.statement.scope in scopes or not declared)]
            requirements[key] = merged(_constrained(key, [*declared, *others], ours, base))
    for key, first in imported.distributions.items():
        if (
            key not in requirements
            and first.scope in scopes
            and (not project or key != canonicalize_name(project.value))
        ):
            requirements[key] = Choice(key, (first.origin,), f"imported as {first.value}")
    if tests and "pytest" not in requirements:
        requirements["pytest"] = Choice("pytest", (), "runs the tests")
    compiled = tuple(_choices(ours, "extension"))
    if not compiled and any(path.endswith(".pyx") for path in paths):
        compiled = (Choice("cython"),)
    if project:
        for needed in ("setuptools", "wheel"):
            requirements.setdefault(needed, Choice(needed, (project.origin,), "builds the project"))
    questions += imported.questions
    questions += _reported(ours, folder)
    pins = pins_of(ours, facts, base, day)
    if {"torch", "torch-cuda"} <= {choice.value for choice in compiled}:
        origin = next(choice.origins[0] for choice in compiled if choice.value == "torch-cuda")
        chosen = f"for CUDA {pins['cuda'].value}" if "cuda" in pins else f"for the CPU: {base.distro} has no CUDA"
        questions.append(Question(f"the extension is compiled for CUDA or for the CPU; here {chosen}", origin))
    for path in submodules:
        if not any(s.subject == "submodule" and s.value.startswith(f"{path} ") for s in ours):
            questions.append(Question(f"the submodule {path} has no address in .gitmodules"))

    return Decision(
        name=name,
        day=day,
        base=base,
        base_choice=replace(base_choice, lost=(*base_choice.lost, *_other_bases(ours, base))),
        requirements=dict(sorted(requirements.items())),
        preferred=_preferred(ours),
        indexes=tuple(dict.fromkeys(s.value for s in ours if s.subject == "index")),
        apt=apt_of(ours, requirements, distributions),
        env=env_of(ours),
        pins=pins,
        cxx=next(iter(_choices(ours, "cxx")), None),
        architectures=tuple(_choices(ours, "architecture")),
        project=project.value if project else None,
        project_folder=folder,
        version=v.value if (v := _first(ours, "version")) else "",
        compiled=compiled,
        python_paths=() if project else tuple(_import_roots(paths)),
        modules=tuple(sorted(own.top)) if project else (),
        imports=tuple(sorted(imported.modules)),
        tests=tests,
        commands=tuple(_choices(ours, "command"))[:_MOST_COMMANDS],
        submodules=bool(submodules) or any(s.subject == "submodule" for s in ours),
        title=_shown(_first(ours, "title")),
        licence=_shown(_first(ours, "licence")),
        questions=tuple(dict.fromkeys(questions))[:_MOST_QUESTIONS],
    )


def _other_bases(statements: Sequence[Statement], base: PythonBase) -> list[Overruled]:
    """The images and distributions that files name, which a base of Debian replaces."""
    named = {s.value: s for s in statements if s.subject in ("base", "distro") and s.value != base.distro}
    why = "Debian and Ubuntu need no registry, and a block adds CUDA; set `base` to use it"
    return [Overruled(value, s.origin, why) for value, s in named.items() if s.scope == "run"]


def project_folder(statements: Sequence[Statement]) -> str:
    """The folder of the package's metadata nearest to the root."""
    folders = {s.origin.file.rpartition("/")[0] for s in statements if s.subject == "project" and s.format in _METADATA}
    return min(folders, key=lambda folder: (folder.count("/") + bool(folder), folder), default="")


class _Own:
    """Names of the repository's own modules: `top` can be imported once it is installed, `all` by some script."""

    def __init__(self, top: set[str], every: set[str]) -> None:
        self.top, self.all = top, every


# Folders that are packages by their `__init__.py` and are not installed; of setuptools' list for flat layouts.
_NOT_INSTALLED = frozenset(
    (
        "benchmark",
        "benchmarks",
        "build",
        "ci",
        "doc",
        "docs",
        "example",
        "examples",
        "scripts",
        "tasks",
        "test",
        "tests",
        "tools",
    )
)


def own_modules(paths: Collection[str], folder: str, stated: Collection[str]) -> _Own:
    """`stated` are the modules that the project says it installs; without them its folders are looked at."""
    prefix = f"{folder}/" if folder else ""
    top: set[str] = set()
    every: set[str] = set()
    for path in paths:
        if not path.endswith((".py", ".pyx", ".pyi")):
            continue
        parts = path.split("/")
        every |= {*parts[:-1], parts[-1].partition(".")[0]}
        inner = path.removeprefix(prefix).removeprefix("src/")
        if path.startswith(prefix) and inner.count("/") == 1 and inner.endswith("/__init__.py"):
            top.add(inner.partition("/")[0])
    return _Own({name for name in stated if name.isidentifier()} or top - _NOT_INSTALLED, every)


class _Imported:
    """Distributions that the code needs, each with the first import of it; `modules` are those that must import."""

    def __init__(self) -> None:
        self.distributions: dict[str, Statement] = {}
        self.modules: set[str] = set()
        self.questions: list[Question] = []


def _imported(
    statements: Sequence[Statement], stated: Mapping[str, Sequence[Stated]], own: _Own, distributions: Distributions
) -> _Imported:
    found = _Imported()
    order = {"run": 0, "build": 1, "test": 2, "example": 3, "other": 4}
    imports = [s for s in statements if s.subject == "import" and s.format in ("python", "notebook", "setup.py")]
    for statement in sorted(imports, key=lambda s: order[s.scope]):
        module = statement.value
        if is_standard(module) or module in own.top:
            continue
        known = distributions.of_module(module)
        declared = canonicalize_name(known or module)
        if declared in stated or (module not in own.all and known):
            found.distributions.setdefault(declared, statement)
            if statement.scope == "run" and statement.format == "python":
                found.modules.add(module)
        elif module not in own.all and statement.scope in ("run", "test"):
            rest = "PyPI has no distribution of it" if known == "" else "which distribution has it?"
            found.questions.append(Question(f"the module {module} is imported: {rest}", statement.origin))
    return found


def _of_conda(statements: Sequence[Statement], distributions: Distributions) -> list[Statement]:
    """Conda packages as requirements of PyPI."""
    found = []
    for statement in statements:
        if statement.subject == "conda":
            name, specifier = split(statement.value)
            project = distributions.of_conda(name)
            if project and not project.startswith("apt:"):
                found.append(replace(statement, subject="package", value=f"{project}{specifier}"))
    return found


def _constrained(key: str, stated: Sequence[Stated], statements: Sequence[Statement], base: PythonBase) -> list[Stated]:
    """The requirements of a project with those of constraint files."""
    constraints, _ = read([s for s in statements if s.subject == "constraint"], base)
    return [*stated, *constraints.get(key, ())]


def _preferred(statements: Sequence[Statement]) -> dict[str, str]:
    """Versions of lock files by project; of several for one project the last."""
    pairs = (s.value.partition("==") for s in statements if s.subject == "locked")
    return {canonicalize_name(name): version for name, _, version in pairs}


def _reported(statements: Sequence[Statement], folder: str) -> list[Question]:
    """What was read and is not part of the recipe."""
    texts = {
        "unread": "not read: {}",
        "lfs": "a file of Git LFS of {}, which the commit does not hold: list it under `data` or `files`",
    }
    found = [Question(texts[s.subject].format(s.value), s.origin) for s in statements if s.subject in texts]
    for statement in statements:
        if statement.subject == "source" and statement.format in (*_DECLARING, "dockerfile", "script"):
            found.append(Question(f"{statement.value} is installed from git: add it to `sources`", statement.origin))
    return found


def _import_roots(paths: Collection[str]) -> list[str]:
    """Folders that scripts of the repository import from: its root, and `src` where packages are in it."""
    roots = [""] if any(path.endswith(".py") for path in paths) else []
    return [*roots, *(["src"] if any(p.startswith("src/") and p.endswith("/__init__.py") for p in paths) else [])]


def _first(statements: Sequence[Statement], subject: Subject) -> Statement | None:
    return next((s for s in statements if s.subject == subject), None)


def _choices(statements: Sequence[Statement], subject: Subject) -> list[Choice]:
    """The values of a subject, each with its first origin."""
    found: dict[str, Choice] = {}
    for statement in statements:
        if statement.subject == subject and statement.scope in ("run", "build"):
            found.setdefault(statement.value, Choice(statement.value, (statement.origin,)))
    return list(found.values())


def _shown(statement: Statement | None) -> Choice | None:
    return Choice(statement.value, (statement.origin,)) if statement else None
