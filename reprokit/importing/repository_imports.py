"""The repository's own modules, and the distributions that provide its other imports."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from packaging.utils import canonicalize_name

from reprokit.compat.distributions import PYTHON_2, Distributions, is_standard
from reprokit.importing.decision import Question
from reprokit.importing.merge import Stated
from reprokit.importing.model import Statement


class OwnModules:
    """The repository's own modules: `top` can be imported after installation, `all` only by its scripts."""

    def __init__(self, top: set[str], every: set[str]) -> None:
        self.top, self.all = top, every


# Folders that setuptools does not install from a flat layout, even with an `__init__.py`.
_NOT_INSTALLED = {
    "benchmark", "benchmarks", "build", "ci", "doc", "docs", "example", "examples", "scripts", "tasks", "test",
    "tests", "tools",
}  # fmt: skip
_PACKAGE_FOLDERS = ("src/", "lib/", "python/")


def own_modules(paths: Collection[str], folder: str, statements: Sequence[Statement]) -> OwnModules:
    """The modules that the project states, otherwise those of its folders, otherwise those it compiles."""
    prefix = f"{folder}/" if folder else ""
    named = [s for s in statements if s.subject == "module" and s.value.isidentifier()]
    stated = {s.value for s in named if s.scope not in ("build", "other")}
    compiled = {s.value for s in named if s.scope == "build"}
    top: set[str] = set()
    every = {s.value for s in named}
    around = [place for place in _PACKAGE_FOLDERS if f"{prefix}{place}__init__.py" not in paths]
    for path in paths:
        if not path.endswith((".py", ".pyx", ".pyi")):
            continue
        parts = path.split("/")
        every |= {*parts[:-1], parts[-1].partition(".")[0]}
        inner = path.removeprefix(prefix)
        inner = next((inner.removeprefix(f) for f in around if inner.startswith(f)), inner)
        if path.startswith(prefix) and inner.count("/") == 1 and inner.endswith("/__init__.py"):
            top.add(inner.partition("/")[0])
    return OwnModules(stated or top - _NOT_INSTALLED or compiled, every)


class ImportedDistributions:
    """Distributions that the code needs, each with its first import; `modules` maps run-time modules to them."""

    def __init__(self) -> None:
        self.distributions: dict[str, Statement] = {}
        self.modules: dict[str, str] = {}
        self.questions: list[Question] = []


def imports_of(
    statements: Sequence[Statement],
    stated: Mapping[str, Sequence[Stated]],
    own: OwnModules,
    project: str,
    paths: Collection[str],
    distributions: Distributions,
) -> ImportedDistributions:
    """The distributions that the code imports. `stated` are requirements by project, `project` is the code's name."""
    imported = ImportedDistributions()
    order = {"run": 0, "build": 1, "test": 2, "example": 3, "other": 4}
    imports = [s for s in statements if s.subject == "import" and s.format in ("python", "notebook", "setup.py")]
    # The smoke test imports the modules of the code, or of the notebooks if there is no other code.
    code = {s.format for s in imports if s.scope == "run" and s.format != "setup.py"}
    format = "python" if "python" in code else "notebook"
    protocols = {path.rpartition("/")[2].removesuffix(".proto"): path for path in paths if path.endswith(".proto")}
    bare = {_bare(key): key for key in stated}
    generated: dict[str, Statement] = {}
    unknown: set[str] = set()
    gone: dict[str, Statement] = {}
    for statement in sorted(imports, key=lambda s: order[s.scope]):
        module = statement.value
        if is_standard(module) or module in own.top or _bare(module) == _bare(project):
            continue
        if module in PYTHON_2 and module not in own.all and statement.scope == "run":
            gone.setdefault(module, statement)
            continue
        provider = distributions.of_module(module)
        others = (canonicalize_name(module), *distributions.alternatives.get(module, ()), bare.get(_bare(module), ""))
        declared = next((name for name in (canonicalize_name(provider or module), *others) if name in stated), "")
        if declared or (module not in own.all and provider):
            distribution = declared or canonicalize_name(provider or module)
            imported.distributions.setdefault(distribution, statement)
            if statement.scope == "run" and statement.format == format:
                imported.modules[module] = distribution
        elif (stem := module.removesuffix("_grpc").removesuffix("_pb2")) != module and stem in protocols:
            generated.setdefault(protocols[stem], statement)
        elif module not in own.all and module not in unknown and statement.scope in ("run", "test"):
            unknown.add(module)
            problem = "PyPI has no distribution of it" if provider == "" else "which distribution has it?"
            imported.questions.append(Question(f"the module {module} is imported: {problem}", statement.origin))
    if gone:
        text = (
            f"the code needs changes: no distribution here has Python 2, whose modules it imports ({', '.join(gone)})"
        )
        imported.questions.append(Question(text, next(iter(gone.values())).origin))
    if generated:
        text = f"protoc makes modules that are imported from {', '.join(generated)}: with which command?"
        imported.questions.append(Question(text, next(iter(generated.values())).origin))
    return imported


def _bare(name: str) -> str:
    """A name without the punctuation and case in which modules and distributions differ."""
    return name.lower().replace("-", "").replace("_", "").replace(".", "")
