"""CUTLASS with CUDA, the GPU, the C++ standard, gcc and CMake."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from reprokit.compat.model import Gpu
from reprokit.compat.verdict import Clash, Verdict, error, shared, warning
from reprokit.compat.version import begins, key, series, within
from reprokit.compat.view import View


def _row(view: View, version: str) -> dict[str, Any] | None:
    return next((r for r in view.facts["cutlass"]["releases"] if within(version, r)), None)


def _with(view: View, name: str, judge: Callable[[str, dict, str], Verdict | None]) -> Iterator[Clash]:
    cutlass, pin = view.known("cutlass"), view.known(name)
    if cutlass is None or pin is None:
        return
    cases = []
    for version in cutlass.versions:
        row = _row(view, version)
        cases += [(f"CUTLASS {version} with {name} {v}", judge(version, row, v) if row else None) for v in pin.versions]
    verdict = shared(cases)
    if verdict:
        yield (cutlass.label, pin.label), verdict


def cuda(view: View) -> Iterator[Clash]:
    default = view.facts["cutlass"]["default_archs"]

    def judge(version: str, row: dict, release: str) -> Verdict | None:
        if "cuda_min" in row and key(release) < key(row["cuda_min"]):
            return error(
                f"CUTLASS {version} needs CUDA {row['cuda_min']} or later, not {series(release)}", row["source"]
            )
        if "cuda_warn_below" in row and key(release) < key(row["cuda_warn_below"]):
            return warning(f"CUTLASS {version} calls CUDA below {row['cuda_warn_below']} deprecated", row["source"])
        if within(version, default) and key(release) >= key(default["cuda_from"]):
            return warning(f"CUTLASS {version} with CUDA {series(release)}: {default['text']}", default["source"])
        return None

    yield from _with(view, "cuda", judge)


def gcc(view: View) -> Iterator[Clash]:
    def judge(version: str, row: dict, compiler: str) -> Verdict | None:
        if "gcc_min" in row and key(compiler) < key(row["gcc_min"]):
            return error(f"CUTLASS {version} needs gcc {row['gcc_min']} or later, not {compiler}", row["source"])
        if any(begins(bad, compiler) for bad in row.get("gcc_avoid", ())):
            return warning(f"CUTLASS {version} says to avoid gcc {compiler}", row["source"])
        return None

    yield from _with(view, "gcc", judge)


def cmake(view: View) -> Iterator[Clash]:
    def judge(version: str, row: dict, release: str) -> Verdict | None:
        if "cmake_min" in row and key(release) < key(row["cmake_min"]):
            return warning(
                f"CUTLASS {version} is built with CMake {row['cmake_min']} or later; its headers alone need none",
                row["source"],
            )
        return None

    yield from _with(view, "cmake", judge)


def standard(view: View) -> Iterator[Clash]:
    cutlass, wanted = view.known("cutlass"), view.stack.cxx_standard
    if cutlass is None or not wanted:
        return
    cases = []
    for version in cutlass.versions:
        row = _row(view, version)
        old = row is not None and int(wanted) < int(row["cxx"])
        reason = f"CUTLASS {version} needs C++{row['cxx']}, the code is compiled as C++{wanted}" if row else ""
        cases.append((f"CUTLASS {version}", error(reason, row["source"]) if old and row else None))
    verdict = shared(cases)
    if verdict:
        yield (cutlass.label, f"cxx_standard={wanted}"), verdict


def gpu(view: View) -> Iterator[Clash]:
    cutlass = view.known("cutlass")
    if cutlass is None:
        return
    for card in view.stack.gpus:
        verdict = shared((f"CUTLASS {v}", _judge_gpu(_row(view, v), v, card)) for v in cutlass.versions)
        if verdict:
            yield (cutlass.label, card.label), verdict


def _judge_gpu(row: dict[str, Any] | None, version: str, card: Gpu) -> Verdict | None:
    if row is None or card.capability[0] <= row["sm_max"] // 10:
        return None
    return warning(
        f"CUTLASS {version} has kernels of its own up to sm_{row['sm_max']}, none for sm_{card.sm}", row["source"]
    )
