"""The folder of the repository's project, and code that must be compiled elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from packaging.utils import canonicalize_name

from reprokit.importing.conda import shortened
from reprokit.importing.decision import Question
from reprokit.importing.model import VENDORED, Origin, Statement, scope_of_path

METADATA = ("pyproject", "setup.cfg", "setup.py")
_DEEPEST = 2


def project_folder(statements: Sequence[Statement]) -> str:
    """The folder with the package metadata nearest to the root. Deeper ones are projects that the code uses."""
    return min(_nearest_projects(statements), default=(0, 0, ""))[2]


def _nearest_projects(statements: Sequence[Statement]) -> list[tuple[int, int, str]]:
    """The folders with metadata nearest to the root; the one with the most requirements first."""
    declared = [
        s for s in statements if s.format in METADATA and s.scope == "run" and s.origin.file.count("/") <= _DEEPEST
    ]
    folders = [s.origin.file.rpartition("/")[0] for s in declared]
    needed = Counter(folder for s, folder in zip(declared, folders, strict=True) if s.subject == "package")
    named = {folder for s, folder in zip(declared, folders, strict=True) if s.subject == "project"}
    ranked = sorted((folder.count("/") + bool(folder), -needed[folder], folder) for folder in named)
    return [entry for entry in ranked if entry[0] == ranked[0][0]]


def other_projects(statements: Sequence[Statement], folder: str) -> list[Question]:
    """A question if several folders are projects."""
    others = [other for _, _, other in _nearest_projects(statements) if other != folder]
    text = f"several folders are projects: {folder} is taken, and not {shortened(sorted(others))}"
    return [Question(text)] if others else []


def parts_of(statements: Sequence[Statement], folder: str) -> dict[str, str]:
    """The folders of the repository's other projects, by name."""
    named = [s for s in statements if s.subject == "project" and s.format in METADATA and s.scope == "run" and s.value]
    return {canonicalize_name(s.value): _folder(s) for s in named if _folder(s) != folder}


def is_part(paths: Collection[str], folder: str) -> bool:
    """Whether most of the code is outside of the project's folder: the project is an extension for the scripts."""
    code = [path for path in paths if path.endswith(".py") and _is_ours(path)]
    return bool(folder) and 2 * sum(path.startswith(f"{folder}/") for path in code) < len(code)


def unbuilt(statements: Sequence[Statement], paths: Collection[str], project: bool, folder: str) -> Iterator[Question]:
    """Questions about code that is compiled outside of the project; a `project` in the root is built."""
    built = project and not folder
    compiled = [s for s in statements if s.subject == "extension" and s.scope == "run"]
    parts = {_folder(s): s.origin for s in reversed(compiled) if s.format == "setup.py" and _folder(s)}
    if parts:
        text = f"the recipe does not build the extensions of {shortened(sorted(parts))}; build them in the workspace"
        yield Question(text, parts[min(parts)])
    if "CMakeLists.txt" in paths and not built:
        text = "the recipe does not build what CMakeLists.txt makes; build it in the workspace"
        yield Question(text, Origin("CMakeLists.txt", 1))
        return
    cuda = [_folder(s) for s in compiled if s.value in ("cuda", "torch-cuda")]
    kernels = [path for path in sorted(paths) if path.endswith(".cu") and _is_ours(path)]
    left = [path for path in kernels if not any(f"{path}/".startswith(f"{f}/" if f else "") for f in cuda)]
    if left:
        text = "CUDA code that no setup.py is known to compile: when and how is it compiled?"
        yield Question(text, Origin(left[0], 1))


def _folder(statement: Statement) -> str:
    return statement.origin.file.rpartition("/")[0]


def _is_ours(path: str) -> bool:
    return scope_of_path(path) == "run" and not VENDORED & set(path.lower().split("/")[:-1])
