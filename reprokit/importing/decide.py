"""Decide on one stack from the statements of files, in a pure function."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import date

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from reprokit.compat.distributions import Distributions
from reprokit.compat.facts import Facts
from reprokit.importing.conda import of_conda, shortened, split
from reprokit.importing.decision import Choice, Decision, Overruled, PythonBase, Question
from reprokit.importing.merge import Stated, exact, merged, names_prerelease, read, with_extras
from reprokit.importing.model import BINDER, BINDER_REPLACES, Statement, Subject
from reprokit.importing.projects import METADATA, is_part, other_projects, parts_of, project_folder, unbuilt
from reprokit.importing.repository_imports import imports_of, own_modules
from reprokit.importing.requirement_lines import valid_requirement
from reprokit.importing.system_choice import (
    ENV_OF_IMAGES,
    TRUSTED,
    apt_of,
    env_of,
    minima,
    pins_of,
    stated_cuda,
    unmet_questions,
)

_MOST = 40
# Files whose `git clone` is listed; that of another file is a question.
_HINTING = ("readme", "notebook", "workflow", "makefile", "repo2docker", "devcontainer")
_SPLIT = "=<>!~[;@ "


def unused_of(
    statements: Sequence[Statement], ours: Sequence[Statement], decision: Decision, distributions: Distributions
) -> tuple[Overruled, ...]:
    """The statements that the decision ignores without a question. `ours` are the statements that it was made from.

    Optional features, tests and documents are not listed.
    """
    kept = set(ours)
    unused: dict[tuple[str, str], Overruled] = {}
    for statement in statements:
        overruled = None
        if statement.origin.file in BINDER_REPLACES and statement.scope == "other":
            why = "repo2docker reads its own folder instead"
            overruled = Overruled(f"{statement.subject} {statement.value}", statement.origin, why)
        elif statement.scope == "run" and statement not in kept:
            overruled = _of_other_project(statement, decision)
        elif statement.scope == "run":
            overruled = _why(statement, decision, distributions)
        if overruled:
            unused.setdefault((overruled.value, overruled.origin.file), overruled)
    lines = list(unused.values())
    if len(lines) > _MOST:
        more = f"{len(lines) - _MOST} more statements"
        lines[_MOST:] = [Overruled(more, lines[_MOST].origin, "too many to list, from this line on")]
    return tuple(lines)


def _why(statement: Statement, decision: Decision, distributions: Distributions) -> Overruled | None:
    subject, value = statement.subject, statement.value
    if subject == "package" or subject == "conda":
        return _package(statement, decision, distributions)
    if subject == "apt" and not _has_value(decision.apt, value.partition("=")[0]):
        why = "the base and the blocks choose this version" if statement.format in TRUSTED else ""
        return Overruled(
            f"apt {value}", statement.origin, why or "what CI, a script or a README installs is often for other systems"
        )
    if (
        subject == "env"
        and statement.format in (*TRUSTED, "readme")
        and value.partition("=")[0] not in ENV_OF_IMAGES
        and not _has_value(decision.env, value)
    ):
        name = value.partition("=")[0]
        replaced = any(choice.value.startswith(f"{name}=") for choice in decision.env)
        return Overruled(
            value, statement.origin, f"{name} has another value" if replaced else "no file for an image sets it"
        )
    if subject == "library" and statement.format == "cmake" and value.split()[0] not in distributions.libraries:
        name = value.split()[0]
        if not distributions.of_part(name) and canonicalize_name(name) not in decision.requirements:
            return Overruled(f"the library {value}", statement.origin, "no package of the distribution is known for it")
    if subject == "architecture" and "cuda" not in decision.pins:
        return Overruled(f"GPU architecture {value}", statement.origin, "no code is compiled for CUDA here")
    if subject == "source" and statement.format in _HINTING:
        return Overruled(value, statement.origin, "a clone for its reader; add it to `sources` if the code needs it")
    if subject == "cudnn":
        return Overruled(f"cuDNN {value}", statement.origin, "wheels have their own cuDNN")
    return None


def _package(statement: Statement, decision: Decision, distributions: Distributions) -> Overruled | None:
    name = statement.value
    for letter in _SPLIT:
        name = name.partition(letter)[0]
    project = canonicalize_name(name)
    if statement.subject == "conda":
        of_conda = distributions.of_conda(name)
        if not of_conda or of_conda.startswith("apt:"):  # for the system, or a question
            return None
        project = canonicalize_name(of_conda)
    project = canonicalize_name(distributions.stand_ins.get(project, project))
    if project in decision.requirements or project == canonicalize_name(decision.project or ""):
        return None
    requirement = valid_requirement(statement.value)
    if requirement and (requirement.marker or requirement.url):  # not for this Python, or a question
        return None
    return Overruled(statement.value, statement.origin, "no code imports it, and other files declare what is needed")


def _of_other_project(statement: Statement, decision: Decision) -> Overruled | None:
    """One line for each file that was ignored completely."""
    if statement.subject not in ("package", "conda", "apt"):
        return None
    file = statement.origin.file
    return Overruled(
        f"what {file} installs", statement.origin, f"it is not for {decision.project or decision.name} itself"
    )


def _has_value(choices: Collection[Choice], value: str) -> bool:
    return any(choice.value == value for choice in choices)


_DECLARING = (*METADATA, "requirements", "pipfile", "environment")
_MOST_QUESTIONS = 60
_MOST_COMMANDS = 10
_MOST_LOCKED = 3  # versions of one project


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
    ours = [s for s in statements if s.format not in METADATA or s.origin.file.rpartition("/")[0] == folder]
    project = _first([s for s in ours if s.value], "project") or _first(ours, "project")
    if project:  # its metadata states what it needs; Binder's files are for its examples
        ours = [s for s in ours if not s.origin.file.startswith(BINDER)]
    part = is_part(paths, folder)
    own = own_modules(paths, folder, ours)
    own.all |= {s.value for s in statements if s.subject == "module"}
    tests = any(s.subject == "test" for s in ours)
    scopes = {"run", *(("build",) if project else ()), *(("test",) if tests else ())}

    packages = [s for s in ours if s.subject == "package"]
    ourselves = {canonicalize_name(name) for name in (*own.top, *([project.value] if project else []))}
    of_others = [s for s in ours if s.subject == "conda" and canonicalize_name(split(s.value)[0]) not in ourselves]
    conda, unknown = of_conda(of_others, distributions)
    required, addressed = _from_index([*packages, *conda], distributions)
    stated, questions = read(required, base)
    questions += [*addressed, *unknown]
    constraints, _ = read([s for s in ours if s.subject == "constraint"], base)
    if project:
        stated.pop(canonicalize_name(project.value), None)
    for key, place in parts_of(statements, folder).items():
        if key in stated:
            first, indexed = stated[key][0].statement, distributions.knows(key)
            what = "a release of the index is taken" if indexed else "the recipe does not install it"
            questions.append(Question(f"{key} is the project of {place}: {what}", first.origin))
            if not indexed:  # a stranger may register the name on the index
                del stated[key]
    imported = imports_of(ours, stated, own, project.value if project else "", paths, distributions)
    requirements: dict[str, Choice] = {}
    optional: set[str] = set()
    declaring = [entry for entries in stated.values() for entry in entries if entry.statement.format in _DECLARING]
    # If a project declares its requirements, other imports are optional.
    complete = project is not None and not part and any(entry.statement.scope == "run" for entry in declaring)
    for key, entries in stated.items():
        declared = [o for o in entries if _declares(o, scopes)]
        used = imported.distributions.get(key)
        if declared or (used and used.scope in scopes) or not declaring:
            others = [o for o in entries if not _declares(o, scopes) and (o.statement.scope in scopes or not declared)]
            requirements[key] = merged([*_to_run(key, [*declared, *others]), *constraints.get(key, ())])
            runs = any(entry.statement.scope in ("run", "build") for entry in declared)
            if complete and not runs and key != "pytest":
                optional.add(key)
    for key, first in imported.distributions.items():
        if (
            key not in requirements
            and first.scope in scopes
            and (not project or key != canonicalize_name(project.value))
        ):
            requirements[key] = Choice(key, (first.origin,), f"imported as {first.value}")
            if complete and first.scope != "build" and key != "pytest":
                optional.add(key)
    for key in [key for key in requirements if key not in optional]:
        for needed in distributions.companions.get(key, ()):
            requirements.setdefault(needed, Choice(needed, requirements[key].origins, f"{key} imports it"))
    if tests and "pytest" not in requirements:
        requirements["pytest"] = Choice("pytest", (), "runs the tests")
    compiled = tuple(_choices(ours, "extension"))
    if not compiled and any(path.endswith(".pyx") for path in paths):
        compiled = (Choice("cython"),)
    if project:
        for needed in ("setuptools", "wheel"):
            requirements.setdefault(needed, Choice(needed, (project.origin,), "builds the project"))
    if "setuptools" in requirements:
        requirements["setuptools"] = _that_starts(requirements["setuptools"], base)
    questions += imported.questions
    questions += _reported(ours, folder)
    questions += [*other_projects(statements, folder), *unbuilt(statements, paths, project is not None, folder)]
    questions += unmet_questions(base, minima(ours), facts)
    pins = pins_of(ours, facts, base, day)
    if rust := next((o for o in _choices(ours, "extension") if o.value == "rust"), requirements.get("maturin")):
        text = "it is built with Rust: no block has cargo, and crates are not downloaded"
        questions.append(Question(text, next(iter(rust.origins), None)))
    if {"torch", "torch-cuda"} <= {choice.value for choice in compiled}:
        origin = next(choice.origins[0] for choice in compiled if choice.value == "torch-cuda")
        chosen = f"for CUDA {pins['cuda'].value}" if "cuda" in pins else f"for the CPU: {base.distro} has no CUDA"
        questions.append(Question(f"the extension is compiled for CUDA or for the CPU; here {chosen}", origin))
    named = {path: url for s in ours if s.subject == "submodule" for path, _, url in [s.value.partition(" ")]}
    for path in sorted({*submodules, *named}):
        if not named.get(path):
            questions.append(Question(f"the submodule {path} has no address in .gitmodules"))

    decision = Decision(
        name=name,
        day=day,
        base=base,
        base_choice=replace(base_choice, lost=(*base_choice.lost, *_other_bases(ours, base))),
        requirements=dict(sorted(requirements.items())),
        optional=frozenset(optional),
        preferred=_preferred(ours),
        locked=_locked(ours),
        indexes=tuple(dict.fromkeys(s.value for s in ours if s.subject == "index" and s.scope in scopes - {"test"})),
        apt=apt_of([s for s in ours if compiled or s.format != "c"], requirements, distributions, paths),
        env=env_of(ours),
        pins=pins,
        cuda=() if "cuda" in pins else stated_cuda(ours),
        cxx=next(iter(_choices(ours, "cxx")), None),
        architectures=tuple(_choices(ours, "architecture")),
        project=project.value if project else None,
        project_folder=folder,
        version=v.value if (v := _first(ours, "version")) else "",
        compiled=compiled,
        python_paths=tuple(_python_paths(paths, folder, part) if project else _import_roots(paths)),
        modules=tuple(sorted(own.top)) if project else (),
        imports=dict(sorted(imported.modules.items())),
        tests=tests,
        commands=tuple(_choices(ours, "command"))[:_MOST_COMMANDS],
        submodules=bool(submodules) or any(s.subject == "submodule" for s in ours),
        title=_shown(_first(ours, "title")),
        licence=_shown(_first([s for s in ours if s.value], "licence") or _first(ours, "licence")),
        questions=_bounded(tuple(dict.fromkeys(questions))),
    )
    return replace(decision, unused=unused_of(statements, ours, decision, distributions))


def _bounded(questions: tuple[Question, ...]) -> tuple[Question, ...]:
    more = len(questions) - _MOST_QUESTIONS
    if more <= 0:
        return questions
    return (
        *questions[:_MOST_QUESTIONS],
        Question(f"and {more} more, the first of them", questions[_MOST_QUESTIONS].origin),
    )


def _other_bases(statements: Sequence[Statement], base: PythonBase) -> list[Overruled]:
    """Images and distributions that files name and that the base replaces."""
    named = {s.value: s for s in statements if s.subject in ("base", "distro") and s.value != base.distro}
    why = "Debian and Ubuntu need no registry, and a block adds CUDA; set `base` to use it"
    return [Overruled(value, s.origin, why) for value, s in named.items() if s.scope == "run"]


def _from_index(
    statements: Sequence[Statement], distributions: Distributions
) -> tuple[list[Statement], list[Question]]:
    """The requirements, without addresses of projects of the index, and with stand-in names replaced."""
    required, questions = [], []
    local: dict[str, list[str]] = {}  # by file, the projects that `pip freeze` recorded from local folders
    first: dict[str, Statement] = {}
    for statement in statements:
        requirement = valid_requirement(statement.value)
        name = canonicalize_name(requirement.name) if requirement else ""
        value = distributions.stand_ins.get(name, statement.value)
        if requirement and requirement.url and distributions.knows(name):
            value = with_extras(requirement) + (f"; {requirement.marker}" if requirement.marker else "")
            if requirement.url.startswith("file:"):
                local.setdefault(statement.origin.file, []).append(requirement.name)
                first.setdefault(statement.origin.file, statement)
            else:
                text = f"{requirement.name} is installed from {requirement.url}; a release of the index is taken"
                questions.append(Question(text, statement.origin))
        required.append(replace(statement, value=value))
    for file, names in local.items():
        text = f"{shortened(names)}: installed from folders that are not here; releases of the index are taken"
        questions.append(Question(text, first[file].origin))
    return required, questions


def _declares(entry: Stated, scopes: Collection[str]) -> bool:
    return entry.statement.format in (*_DECLARING, "pytest") and entry.statement.scope in scopes


def _that_starts(setuptools: Choice, base: PythonBase) -> Choice:
    """A setuptools that this Python can import: 3.9 and 3.12 removed standard modules that older releases use."""
    minor = int(base.python.partition(".")[2])
    oldest = "66.1" if minor >= 12 else "41.1" if minor >= 9 else "0"
    requirement = Requirement(setuptools.value)
    requirement.specifier &= SpecifierSet(f">={oldest}")
    return replace(setuptools, value=str(requirement)) if exact(requirement.specifier) is None else setuptools


def _to_run(key: str, stated: list[Stated]) -> list[Stated]:
    """The requirements without numpy's exact build versions: they serve to build wheels for other environments."""

    def for_others(entry: Stated) -> bool:
        specifier = entry.requirement.specifier
        return entry.statement.scope == "build" and ("==" in str(specifier) or names_prerelease(specifier))

    loose = [entry for entry in stated if not for_others(entry)]
    return loose if key == "numpy" and loose else stated


def _preferred(statements: Sequence[Statement]) -> dict[str, str]:
    """The last version of each project in lock files."""
    pairs = (s.value.partition("==") for s in statements if s.subject == "locked")
    return {canonicalize_name(name): version for name, _, version in pairs}


def _locked(statements: Sequence[Statement]) -> dict[str, tuple[Choice, ...]]:
    """The versions of lock files by project, each with its line."""
    locked: dict[str, tuple[Choice, ...]] = {}
    for statement in (s for s in statements if s.subject == "locked"):
        name, _, version = statement.value.partition("==")
        key = canonicalize_name(name)
        locked[key] = (*locked.get(key, ())[:_MOST_LOCKED], Choice(version, (statement.origin,)))
    return locked


def _reported(statements: Sequence[Statement], folder: str) -> list[Question]:
    """Questions about statements that do not become part of the recipe."""
    texts = {
        "unread": "not read: {}",
        "lfs": "a file of Git LFS of {}, which the commit does not hold: list it under `data` or `files`",
    }
    questions = [Question(texts[s.subject].format(s.value), s.origin) for s in statements if s.subject in texts]
    for statement in statements:
        if statement.scope != "run":
            continue
        if statement.subject == "source" and statement.format in (*_DECLARING, "dockerfile", "script"):
            questions.append(
                Question(f"{statement.value} is installed from git: add it to `sources`", statement.origin)
            )
    return questions


def _python_paths(paths: Collection[str], folder: str, part: bool) -> list[str]:
    """The entries of PYTHONPATH: the folder of the project's packages, and the root if most code is outside it."""
    source = f"{folder}/src".lstrip("/")
    inner = any(path.startswith(f"{source}/") and path.endswith("/__init__.py") for path in paths)
    packages = inner and f"{source}/__init__.py" not in paths  # otherwise it is a package itself
    return [source if packages else folder, *([""] if part else [])]


def _import_roots(paths: Collection[str]) -> list[str]:
    """Folders that scripts of the repository import from: its root, and `src` if it has packages."""
    roots = [""] if any(path.endswith(".py") for path in paths) else []
    return [*roots, *(["src"] if any(p.startswith("src/") and p.endswith("/__init__.py") for p in paths) else [])]


def _first(statements: Sequence[Statement], subject: Subject) -> Statement | None:
    return next((s for s in statements if s.subject == subject), None)


def _choices(statements: Sequence[Statement], subject: Subject) -> list[Choice]:
    """The values of a subject, each with its first origin."""
    choices: dict[str, Choice] = {}
    for statement in statements:
        if statement.subject == subject and statement.scope in ("run", "build"):
            choices.setdefault(statement.value, Choice(statement.value, (statement.origin,)))
    return list(choices.values())


def _shown(statement: Statement | None) -> Choice | None:
    return Choice(statement.value, (statement.origin,)) if statement else None
