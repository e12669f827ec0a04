"""CUTLASS with CUDA, the GPU, the C++ standard, gcc and CMake."""

from __future__ import annotations

from collections.abc import Iterator

from reprokit.compat.model import COMPILE, KnownGpu
from reprokit.compat.rule import Verdict, combination_rule, error, needs, warning
from reprokit.compat.schema import rows_for
from reprokit.compat.version import begins, older, series
from reprokit.compat.view import View


@combination_rule("cutlass-cuda", of="cutlass cuda", purposes=COMPILE)
def cuda(view: View, version: str, release: str) -> Iterator[Verdict]:
    archs, minor = view.facts.cutlass.default_archs, series(release)
    for row in rows_for(view.facts.cutlass.releases, version):
        yield from needs(f"CUTLASS {version}", "CUDA", row.cuda_min, release, row.source)
        if older(release, row.cuda_warn_below):
            yield warning(f"CUTLASS {version} calls CUDA before {row.cuda_warn_below} deprecated", row.source)
        if archs.covers(version) and not older(release, archs.cuda_from):
            yield warning(f"CUTLASS {version} with CUDA {minor}: {archs.text}", archs.source)


@combination_rule("cutlass-gcc", of="cutlass gcc", purposes=COMPILE)
def gcc(view: View, version: str, compiler: str) -> Iterator[Verdict]:
    for row in rows_for(view.facts.cutlass.releases, version):
        yield from needs(f"CUTLASS {version}", "gcc", row.gcc_min, compiler, row.source)
        if any(begins(bad, compiler) for bad in row.gcc_fails):
            yield error(f"CUTLASS {version} does not compile with gcc {compiler}: use 7.5, or 9 and later", row.source)


@combination_rule("cutlass-cmake", of="cutlass cmake", purposes=COMPILE)
def cmake(view: View, version: str, release: str) -> Iterator[Verdict]:
    for row in rows_for(view.facts.cutlass.releases, version):
        if older(release, row.cmake_min):
            least = f"building CUTLASS {version} needs CMake {row.cmake_min} or later"
            yield warning(f"{least}; using its headers alone needs none", row.source)


@combination_rule("cutlass-cxx", of="cutlass cxx_standard", changes="cutlass", purposes=COMPILE)
def standard(view: View, version: str, cxx: str) -> Iterator[Verdict]:
    for row in rows_for(view.facts.cutlass.releases, version):
        if int(cxx) < int(row.cxx):
            yield error(f"CUTLASS {version} needs C++{row.cxx}, but the code is compiled as C++{cxx}", row.source)


@combination_rule("cutlass-gpu", of="cutlass gpu", changes="cutlass", purposes=COMPILE)
def gpu(view: View, version: str, card: KnownGpu) -> Iterator[Verdict]:
    for row in rows_for(view.facts.cutlass.releases, version):
        if card.capability[0] > row.sm_max // 10:
            reason = f"CUTLASS {version} has kernels of its own up to sm_{row.sm_max}, none for sm_{card.sm}"
            yield warning(reason, row.source)
