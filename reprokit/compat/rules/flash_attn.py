"""flash-attn with CUDA, torch, Python and the GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from reprokit.compat.model import Gpu
from reprokit.compat.rules.torch_wheel import wheels
from reprokit.compat.verdict import Clash, Verdict, error, shared, unknown, warning
from reprokit.compat.version import key, series, within
from reprokit.compat.view import Pin, View

Judge = Callable[[str, dict[str, Any], str], Verdict | None]


def _rows(view: View, pin: Pin) -> list[tuple[str, dict[str, Any] | None]]:
    return [(v, next((r for r in view.facts["flash_attn"]["series"] if within(v, r)), None)) for v in pin.versions]


def _with(view: View, name: str, judge: Judge) -> Iterator[Clash]:
    flash, pin = view.known("flash_attn"), view.known(name)
    if flash is None or pin is None:
        return
    cases = (
        (f"flash-attn {v} with {name} {other}", judge(v, row, other) if row else None)
        for v, row in _rows(view, flash)
        for other in pin.versions
    )
    verdict = shared(cases)
    if verdict:
        yield (flash.label, pin.label), verdict


def cuda(view: View) -> Iterator[Clash]:
    def judge(version: str, row: dict[str, Any], release: str) -> Verdict | None:
        if key(release) < key(row["cuda_min"]):
            setup = row.get("cuda_min_setup")
            if setup and key(release) >= key(setup):
                return warning(
                    f"flash-attn {version} documents CUDA {row['cuda_min']}, its setup.py takes {setup}", row["source"]
                )
            return error(
                f"flash-attn {version} needs CUDA {row['cuda_min']} or later, not {series(release)}", row["source"]
            )
        if "cuda_below" in row and key(release) >= key(row["cuda_below"]):
            return error(f"flash-attn {version} is for CUDA below {row['cuda_below']}", row["source"])
        return None

    yield from _with(view, "cuda", judge)


def torch(view: View) -> Iterator[Clash]:
    def judge(version: str, row: dict[str, Any], release: str) -> Verdict | None:
        if "torch_min" in row and key(release) < key(row["torch_min"]):
            return error(f"flash-attn {version} needs torch {row['torch_min']} or later, not {release}", row["source"])
        return None

    yield from _with(view, "torch", judge)


def python(view: View) -> Iterator[Clash]:
    def judge(version: str, row: dict[str, Any], release: str) -> Verdict | None:
        if "python_min" in row and key(release) < key(row["python_min"]):
            say = warning if row.get("python_min_unverified") else error
            return say(
                f"flash-attn {version} needs Python {row['python_min']} or later, not {series(release)}", row["source"]
            )
        return None

    yield from _with(view, "python", judge)


def same_cuda(view: View) -> Iterator[Clash]:
    """flash-attn 1.x refuses an nvcc whose CUDA is not torch's, minor included."""
    flash, pin, cuda_pin = view.known("flash_attn"), view.known("torch"), view.known("cuda")
    if flash is None or pin is None or cuda_pin is None:
        return
    minors = dict.fromkeys(series(v) for v in cuda_pin.versions)
    cases = []
    for version, row in _rows(view, flash):
        strict = row is not None and row.get("same_cuda_as_torch")
        for found in wheels(view, pin):
            for minor in minors:
                bad = strict and found.cuda and not found.uncertain and found.cuda != minor
                reason = f"flash-attn {version} refuses CUDA {minor} beside a torch built for {found.cuda}"
                cases.append((f"{version} with CUDA {minor}", error(reason, row["source"]) if bad and row else None))
    verdict = shared(cases)
    if verdict:
        yield (flash.label, pin.label, cuda_pin.label), verdict


def gpu(view: View) -> Iterator[Clash]:
    flash = view.known("flash_attn")
    if flash is None:
        return
    for card in view.stack.gpus:
        cases = ((f"flash-attn {v}", _judge_gpu(view, v, row, card) if row else None) for v, row in _rows(view, flash))
        verdict = shared(cases)
        if verdict:
            yield (flash.label, card.label), verdict


def _judge_gpu(view: View, version: str, row: dict[str, Any], card: Gpu) -> Verdict | None:
    least, newest = (tuple(map(int, row[end].split("."))) for end in ("cc_min", "cc_known_max"))
    if card.capability < least:
        return error(
            f"flash-attn {version} needs compute capability {row['cc_min']} or later, not sm_{card.sm}",
            row["source"],
        )
    if card.capability[0] > newest[0]:
        return unknown(
            f"no fact says that flash-attn {version} serves capability {card.capability[0]}.x", row["source"]
        )
    blackwell = row.get("blackwell_cuda_min")
    cuda_pin = view.known("cuda")
    if blackwell and card.capability[0] >= 10 and cuda_pin and all(key(v) < key(blackwell) for v in cuda_pin.versions):
        return error(
            f"flash-attn {version} serves capability {card.capability[0]}.x only with CUDA {blackwell} or later",
            row["source"],
        )
    return None
