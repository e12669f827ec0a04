"""Compiling against PyTorch: the compilers its cpp_extension takes, and the C++ standard of its headers."""

from __future__ import annotations

from collections.abc import Iterator

from reprokit.compat.rules.cuda_compiler import judge_gcc
from reprokit.compat.verdict import Clash, Verdict, error, shared, warning
from reprokit.compat.version import key, series, within
from reprokit.compat.view import View


def cpp_extension(view: View) -> Iterator[Clash]:
    """The gcc that torch's extension builder accepts for a CUDA, where nvcc itself would take more."""
    torch, cuda, gcc = view.known("torch"), view.known("cuda"), view.known("gcc")
    if torch is None or gcc is None:
        return
    least = view.facts["torch_build"]["cpp_extension"]["gcc_min"]
    sources = tuple(view.facts["torch_build"]["cpp_extension"]["source"])
    old = shared(
        (
            f"gcc {g}",
            error(f"torch's cpp_extension asks for gcc {least} or later", sources) if key(g) < key(least) else None,
        )
        for g in gcc.versions
    )
    if old:
        yield (torch.label, gcc.label), old
    elif cuda is not None:
        cases = ((f"CUDA {c} with gcc {g}", _bound(view, c, g)) for c in cuda.versions for g in gcc.versions)
        verdict = shared(cases)
        if verdict:
            yield (torch.label, cuda.label, gcc.label), verdict


def _bound(view: View, release: str, gcc: str) -> Verdict | None:
    table = view.facts["torch_build"]["cpp_extension"]
    bounds = table["gcc_below"].get(series(release, 2))
    if bounds is None:
        return None
    nvcc = judge_gcc(view, release, gcc)
    if nvcc is not None and nvcc.severity == "error":
        return None
    major = key(gcc)[0]
    if major >= max(bounds):
        return error(f"torch's cpp_extension takes gcc below {max(bounds)} with CUDA {release}", table["source"])
    if major >= min(bounds):
        return warning(
            f"some torch releases take gcc {gcc} with CUDA {release}, others only below {min(bounds)}", table["source"]
        )
    return None


def standard(view: View) -> Iterator[Clash]:
    """The C++ standard that torch's headers need, with the compiler and with the recipe's own standard."""
    torch, gcc = view.known("torch"), view.known("gcc")
    if torch is None:
        return
    rows = view.facts["torch_build"]["cxx_standard"]
    wanted = view.stack.cxx_standard
    if wanted:
        verdict = shared((f"torch {v}", _too_old(rows, v, wanted)) for v in torch.versions)
        if verdict:
            yield (torch.label, f"cxx_standard={wanted}"), verdict
    if gcc is not None:
        cases = ((f"torch {v} with gcc {g}", _gcc(rows, v, g)) for v in torch.versions for g in gcc.versions)
        verdict = shared(cases)
        if verdict:
            yield (torch.label, gcc.label), verdict


def _too_old(rows: list[dict], version: str, wanted: str) -> Verdict | None:
    for row in rows:
        if within(version, row) and int(wanted) < int(row["cxx"]):
            if "cxx_works" in row and int(wanted) >= int(row["cxx_works"]):
                return warning(
                    f"torch {version} is C++{row['cxx']}; its headers still compile as C++{wanted}, with warnings",
                    row["source"],
                )
            return error(
                f"the headers of torch {version} need C++{row['cxx']}, the code is compiled as C++{wanted}",
                row["source"],
            )
    return None


def _gcc(rows: list[dict], version: str, gcc: str) -> Verdict | None:
    for row in rows:
        if within(version, row) and "gcc_min" in row and key(gcc) < key(row["gcc_min"]):
            say = warning if row.get("gcc_min_unverified") else error
            return say(
                f"torch {version} is C++{row['cxx']} and asks for gcc {row['gcc_min']} or later, not {gcc}",
                row["source"],
            )
    return None
