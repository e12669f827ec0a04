"""CUDA with the GPU: what nvcc compiles for, what its code runs on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reprokit.compat.model import Gpu
from reprokit.compat.verdict import Clash, Verdict, error, shared, unknown, warning
from reprokit.compat.version import key, series
from reprokit.compat.view import View

_RULES = ("cubin_rule",)


def check(view: View) -> Iterator[Clash]:
    cuda = view.known("cuda")
    if cuda is None:
        return
    for gpu in view.stack.gpus:
        verdict = shared((v, _judge(view, v, gpu)) for v in cuda.versions)
        if verdict:
            yield (cuda.label, gpu.label), verdict


def _judge(view: View, release: str, gpu: Gpu) -> Verdict | None:
    facts = view.facts["cuda"]
    minor = series(release, 2)
    toolkit = facts["toolkits"][minor]
    sources = toolkit["source_sm"]
    if view.stack.purpose == "ptx":
        return _ptx(minor, toolkit, gpu)
    if gpu.sm in toolkit["sm"]:
        return None
    alias = _alias(facts, gpu, toolkit)
    if alias:
        return warning(f"CUDA {minor} knows capability {_dot(gpu.sm)} by another number, sm_{alias}", sources)
    below = [sm for sm in toolkit["sm"] if sm // 10 == gpu.sm // 10 and sm < gpu.sm]
    portable = _portable(view, gpu, below)
    if portable and view.stack.purpose != "compile":
        return None
    if gpu.sm in toolkit.get("sm_unverified", ()):
        return unknown(f"whether nvcc of CUDA {minor} knows sm_{gpu.sm} is not verified", sources)
    if portable:
        since = first_cuda(view, gpu)
        needs = f", which needs CUDA {since}" if since else ""
        return error(
            f"nvcc of CUDA {minor} does not know sm_{gpu.sm}{needs}; what it compiles for sm_{max(portable)} "
            "runs there, which `--for run` allows",
            (*sources, *_RULES),
        )
    return _impossible(view, minor, toolkit, gpu)


def _impossible(view: View, minor: str, toolkit: dict[str, Any], gpu: Gpu) -> Verdict:
    sources = (*toolkit["source_sm"], *_RULES)
    low, high = min(toolkit["sm"]), max(toolkit["sm"])
    if gpu.sm < low:
        last = view.facts["cuda"]["last_for_capability"].get(_dot(gpu.sm))
        until = f"; CUDA {last} was the last that had it" if last else ""
        return error(f"CUDA {minor} dropped sm_{gpu.sm}: it makes code for sm_{low} and later only{until}", sources)
    since = first_cuda(view, gpu)
    needs = f"; sm_{gpu.sm} needs CUDA {since}" if since else ""
    if gpu.sm > high:
        what = f"nvcc of CUDA {minor} knows nothing newer than sm_{high}{needs}"
        if view.stack.purpose == "compile":
            return error(f"{what}. Only PTX could run, compiled anew by the driver at each start", sources)
        return error(f"{what}. Binaries made with it run only if they carry PTX, which is `--for ptx`", sources)
    what = f"nvcc of CUDA {minor} does not know sm_{gpu.sm}, and no code that it makes runs there{needs}"
    return error(what, sources)


def _ptx(minor: str, toolkit: dict[str, Any], gpu: Gpu) -> Verdict | None:
    low = min(toolkit["sm"])
    if gpu.sm >= low:
        return None
    reason = f"PTX of CUDA {minor} is for compute_{low} and later; it cannot be compiled for sm_{gpu.sm}"
    return error(reason, (*toolkit["source_sm"], *_RULES))


def _alias(facts: dict[str, Any], gpu: Gpu, toolkit: dict[str, Any]) -> int | None:
    for pair in facts["renumbered"]:
        numbers = [int(pair["old"].replace(".", "")), int(pair["new"].replace(".", ""))]
        if gpu.sm in numbers:
            other = numbers[1 - numbers.index(gpu.sm)]
            return other if other in toolkit["sm"] else None
    return None


def _portable(view: View, gpu: Gpu, sms: list[int]) -> list[int]:
    """Those of `sms` whose cubins run on the GPU: same major, not above it, and neither of the two a Tegra."""
    tegra = {int(c.replace(".", "")) for c in view.facts["gpus"]["tegra"]}
    return [] if gpu.sm in tegra else [s for s in sms if s not in tegra]


def runs_on(view: View, gpu: Gpu, sms: list[int]) -> list[int]:
    """Those of the cubins `sms` (86 for sm_86) that run on the GPU."""
    if gpu.sm in sms:
        return [gpu.sm]
    return _portable(view, gpu, [s for s in sms if s // 10 == gpu.sm // 10 and s <= gpu.sm])


def first_cuda(view: View, gpu: Gpu) -> str | None:
    """The oldest known CUDA whose nvcc knows the GPU's capability."""
    toolkits = view.facts["cuda"]["toolkits"]
    having = [v for v, t in toolkits.items() if gpu.sm in t["sm"]]
    return min(having, key=key) if having else None


def _dot(sm: int) -> str:
    return f"{sm // 10}.{sm % 10}"
