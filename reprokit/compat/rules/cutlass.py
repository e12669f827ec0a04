"""CUTLASS with CUDA, the GPU, the C++ standard, gcc and CMake."""

from __future__ import annotations

from reprokit.compat.model import KnownGpu
from reprokit.compat.package_schema import CutlassRelease
from reprokit.compat.rule import COMPILE, Verdict, combination_rule, error, warning
from reprokit.compat.version import begins, key, series
from reprokit.compat.view import View


def _row(view: View, version: str) -> CutlassRelease | None:
    return next((row for row in view.facts.cutlass.releases if row.covers(version)), None)


@combination_rule("cutlass-cuda", of="cutlass cuda", purposes=COMPILE)
def cuda(view: View, version: str, release: str) -> Verdict | None:
    row, archs, minor = _row(view, version), view.facts.cutlass.default_archs, series(release)
    if row is None:
        return None
    if row.cuda_min and key(release) < key(row.cuda_min):
        return error(f"CUTLASS {version} needs CUDA {row.cuda_min} or later, not {minor}", row.source)
    if row.cuda_warn_below and key(release) < key(row.cuda_warn_below):
        reason = f"CUTLASS {version} calls CUDA before {row.cuda_warn_below} deprecated"
        return warning(reason, row.source)
    if archs.covers(version) and key(release) >= key(archs.cuda_from):
        return warning(f"CUTLASS {version} with CUDA {minor}: {archs.text}", archs.source)
    return None


@combination_rule("cutlass-gcc", of="cutlass gcc", purposes=COMPILE)
def gcc(view: View, version: str, compiler: str) -> Verdict | None:
    row = _row(view, version)
    if row and row.gcc_min and key(compiler) < key(row.gcc_min):
        return error(f"CUTLASS {version} needs gcc {row.gcc_min} or later, not {compiler}", row.source)
    if row and any(begins(bad, compiler) for bad in row.gcc_avoid):
        return warning(f"CUTLASS {version} advises against gcc {compiler}", row.source)
    return None


@combination_rule("cutlass-cmake", of="cutlass cmake", purposes=COMPILE)
def cmake(view: View, version: str, release: str) -> Verdict | None:
    row = _row(view, version)
    if row and row.cmake_min and key(release) < key(row.cmake_min):
        reason = f"building CUTLASS {version} needs CMake {row.cmake_min} or later; using its headers alone needs none"
        return warning(reason, row.source)
    return None


@combination_rule("cutlass-cxx", of="cutlass cxx_standard", changes="cutlass", purposes=COMPILE)
def standard(view: View, version: str, cxx: str) -> Verdict | None:
    row = _row(view, version)
    if row and int(cxx) < int(row.cxx):
        return error(f"CUTLASS {version} needs C++{row.cxx}, but the code is compiled as C++{cxx}", row.source)
    return None


@combination_rule("cutlass-gpu", of="cutlass gpu", changes="cutlass", purposes=COMPILE)
def gpu(view: View, version: str, card: KnownGpu) -> Verdict | None:
    row = _row(view, version)
    if row and card.capability[0] > row.sm_max // 10:
        reason = f"CUTLASS {version} has kernels of its own up to sm_{row.sm_max}, none for sm_{card.sm}"
        return warning(reason, row.source)
    return None
