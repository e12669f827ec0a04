"""Conda's specifications (`numpy=1.19`, `conda-forge::cmake>=3.18`) as PyPI requirements or as pins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from reprokit.compat.distributions import Distributions
from reprokit.importing.decision import Question
from reprokit.importing.model import SourceFile, Statement, Statements

_PINS = {"python": "python", "cudatoolkit": "cuda", "cuda-toolkit": "cuda", "pytorch-cuda": "cuda", "cuda": "cuda",
         "cuda-version": "cuda", "cudnn": "cudnn", "gcc": "gcc", "gxx": "gcc", "gcc_linux-64": "gcc",
         "gxx_linux-64": "gcc", "cmake": "cmake"}  # fmt: skip
_MOST_NAMES = 20


def conda_statements(file: SourceFile, text: str, line: int) -> Statements:
    """The statements of one specification: a pin if it names a part of the stack, otherwise `conda`."""
    name, specifier = split(text)
    if "|" in text:
        yield file.states("unread", f"a choice of versions: {text}", line)
    if name in _PINS:
        if specifier:
            yield file.states(_PINS[name], specifier, line)  # type: ignore[arg-type]
        if name != "cmake":
            return
    if name and not name.startswith("_"):
        yield file.states("conda", f"{name}{specifier}", line)


def split(text: str) -> tuple[str, str]:
    """The name and the PEP 440 specifier, which is empty if the text has none or an unknown form.

    `=1.2` means `==1.2.*`, and a second `=` begins the build.
    """
    text = text.rpartition("::")[2].strip().strip("'\"")
    end = next((place for place, letter in enumerate(text) if letter in "=<>!~ ["), len(text))
    name, version = text[:end].lower(), text[end:].partition("[")[0].strip()
    if version.startswith("=") and not version.startswith("=="):
        number, build, _ = version[1:].partition("=")
        version = f"=={number}" if build or number.endswith("*") or not number else f"=={number.strip()}.*"
    elif version.startswith("=="):
        version = "==" + version[2:].partition("=")[0]
    elif version[:1].isdigit():  # `numpy 1.19 py38_0`
        version = f"=={version.split()[0]}"
    version = version.replace(" ", "").replace(".*.*", ".*")
    if version.endswith("*") and not version.endswith(".*"):
        version = f"{version[:-1].rstrip('.')}.*"
    try:
        return name, str(SpecifierSet(version)) if "|" not in version else ""
    except InvalidSpecifier:
        return name, ""


def of_conda(statements: Sequence[Statement], distributions: Distributions) -> tuple[list[Statement], list[Question]]:
    """Conda packages as requirements of PyPI, and a question for each file with packages of unknown names."""
    packages = []
    unknown: dict[str, list[Statement]] = {}
    for statement in (s for s in statements if s.subject == "conda"):
        name, specifier = split(statement.value)
        project = distributions.of_conda(name)
        if project is None and statement.scope in ("run", "build", "test"):
            unknown.setdefault(statement.origin.file, []).append(statement)
        if project and not project.startswith("apt:"):
            packages.append(replace(statement, subject="package", value=f"{project}{specifier}"))
    return packages, [_unknown_names(group) for group in unknown.values()]


def _unknown_names(statements: Sequence[Statement]) -> Question:
    names = shortened(list(dict.fromkeys(split(s.value)[0] for s in statements)))
    text = f"conda installs {names}: PyPI may have others of that name; add what the code needs to `wheels` or `apt`"
    return Question(text, statements[0].origin)


def shortened(names: Sequence[str]) -> str:
    """The first names, and the number of the others."""
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
