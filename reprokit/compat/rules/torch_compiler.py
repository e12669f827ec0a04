"""Compiling against PyTorch: the compilers that its cpp_extension accepts, and the C++ standard of its headers."""

from __future__ import annotations

from collections.abc import Iterator

from reprokit.compat.rule import COMPILE, Problem, Verdict, combined, error, rule, warning
from reprokit.compat.rules.cuda_compiler import judge_gcc
from reprokit.compat.version import key, series
from reprokit.compat.view import View


@rule("torch-gcc", changes="gcc cuda", purposes=COMPILE)
def cpp_extension(view: View) -> Iterator[Problem]:
    """The gcc that torch's extension builder accepts for a CUDA, where nvcc itself would accept more."""
    torch, cuda, gcc = view.known("torch"), view.known("cuda"), view.known("gcc")
    if torch is None or gcc is None:
        return
    facts = view.facts.torch_build.cpp_extension
    reason = f"torch's cpp_extension needs gcc {facts.gcc_min} or later"
    old = combined(
        (f"gcc {g}", error(reason, facts.source) if key(g) < key(facts.gcc_min) else None) for g in gcc.versions
    )
    if old:
        yield Problem((torch.label, gcc.label), old)
    elif cuda is not None:
        verdict = combined(
            (f"CUDA {c} with gcc {g}", _judge_bound(view, c, g)) for c in cuda.versions for g in gcc.versions
        )
        if verdict:
            yield Problem((torch.label, cuda.label, gcc.label), verdict)


def _judge_bound(view: View, release: str, gcc: str) -> Verdict | None:
    facts = view.facts.torch_build.cpp_extension
    bounds = facts.gcc_below.get(series(release))
    nvcc = judge_gcc(view, release, gcc)
    if bounds is None or (nvcc is not None and nvcc.severity == "error"):
        return None
    if key(gcc)[0] >= max(bounds):
        return error(f"torch's cpp_extension needs gcc before {max(bounds)} with CUDA {release}", facts.source)
    if key(gcc)[0] >= min(bounds):
        reason = f"with CUDA {release} some torch releases accept gcc {gcc}, others only gcc before {min(bounds)}"
        return warning(reason, facts.source)
    return None


@rule("torch-cxx", changes="torch gcc", purposes=COMPILE)
def standard(view: View) -> Iterator[Problem]:
    """The C++ standard of torch's headers, with the recipe's own standard and with the compiler."""
    for other, judge in (("cxx_standard", _judge_standard), ("gcc", _judge_gcc)):
        for torch in view.sides("torch"):
            for side in view.sides(other):
                verdict = combined(
                    (f"{label} with gcc {value}" if other == "gcc" else label, judge(view, version, value))
                    for label, version in torch.releases
                    for _, value in side.releases
                )
                if verdict:
                    yield Problem((torch.subject, side.subject), verdict)


def _judge_standard(view: View, version: str, cxx: str) -> Verdict | None:
    for row in view.facts.torch_build.cxx_standard:
        if row.covers(version) and int(cxx) < int(row.cxx):
            if row.cxx_works and int(cxx) >= int(row.cxx_works):
                reason = f"torch {version} is C++{row.cxx}; its headers compile as C++{cxx}, but with warnings"
                return warning(reason, row.source)
            reason = f"the headers of torch {version} need C++{row.cxx}, but the code is compiled as C++{cxx}"
            return error(reason, row.source)
    return None


def _judge_gcc(view: View, version: str, gcc: str) -> Verdict | None:
    for row in view.facts.torch_build.cxx_standard:
        if row.covers(version) and row.gcc_min and key(gcc) < key(row.gcc_min):
            judged = warning if row.gcc_min_unverified else error
            reason = f"torch {version} is C++{row.cxx} and needs gcc {row.gcc_min} or later, not {gcc}"
            return judged(reason, row.source)
    return None
