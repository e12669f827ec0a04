"""CUDA with the GPU: the capabilities that nvcc compiles for, and those that its code runs on."""

from __future__ import annotations

from collections.abc import Iterable

from reprokit.compat.model import KnownGpu
from reprokit.compat.rule import GPU, Verdict, combination_rule, error, unknown, warning
from reprokit.compat.schema import Toolkit
from reprokit.compat.version import key, series
from reprokit.compat.view import View


@combination_rule("cuda-gpu", of="cuda gpu", changes="cuda", purposes=GPU)
def cuda_gpu(view: View, release: str, gpu: KnownGpu) -> Verdict | None:
    minor = series(release)
    toolkit = view.facts.cuda.toolkits[minor]
    sources = toolkit.source_sm
    if view.stack.purpose == "ptx":
        lowest = min(toolkit.sm)
        reason = f"PTX of CUDA {minor} is for sm_{lowest} and later; it cannot be compiled for sm_{gpu.sm}"
        return error(reason, (*sources, "cubin_rule")) if gpu.sm < lowest else None
    if gpu.sm in toolkit.sm:
        return None
    if other := _renumbered(view, gpu, toolkit):
        return warning(f"CUDA {minor} has another number for capability {_dot(gpu.sm)}: sm_{other}", sources)
    portable = _portable(view, gpu, [sm for sm in toolkit.sm if sm // 10 == gpu.sm // 10 and sm < gpu.sm])
    if portable and view.stack.purpose != "compile":
        return None
    if gpu.sm in toolkit.sm_unverified:
        return unknown(f"no fact says whether nvcc of CUDA {minor} supports sm_{gpu.sm}", sources)
    if not portable:
        return _impossible(view, minor, toolkit, gpu)
    since = _first_cuda(view, gpu)
    needs = f" (that needs CUDA {since})" if since else ""
    reason = (
        f"nvcc of CUDA {minor} cannot compile for sm_{gpu.sm}{needs}; code for sm_{max(portable)} runs on this GPU: "
        "compile for that and check with `--for run`"
    )
    return error(reason, (*sources, "cubin_rule"))


def _impossible(view: View, minor: str, toolkit: Toolkit, gpu: KnownGpu) -> Verdict:
    sources = (*toolkit.source_sm, "cubin_rule")
    low, high = min(toolkit.sm), max(toolkit.sm)
    if gpu.sm < low:
        last = view.facts.cuda.last_for_capability.get(_dot(gpu.sm))
        until = f"; the last with sm_{gpu.sm} is CUDA {last}" if last else ""
        return error(f"CUDA {minor} no longer supports sm_{gpu.sm}, only sm_{low} and later{until}", sources)
    since = _first_cuda(view, gpu)
    needs = f"; sm_{gpu.sm} needs CUDA {since}" if since else ""
    if gpu.sm < high:
        reason = f"nvcc of CUDA {minor} does not support sm_{gpu.sm}, and none of its code runs on that GPU{needs}"
    elif view.stack.purpose == "compile":
        reason = (
            f"nvcc of CUDA {minor} supports GPUs up to sm_{high}{needs}. Only PTX could run, which the driver compiles "
            "again at each start"
        )
    else:
        reason = (
            f"nvcc of CUDA {minor} supports GPUs up to sm_{high}{needs}. Binaries run only if they contain PTX: check "
            "with `--for ptx`"
        )
    return error(reason, sources)


def _renumbered(view: View, gpu: KnownGpu, toolkit: Toolkit) -> int | None:
    for pair in view.facts.cuda.renumbered:
        numbers = [int(pair.old.replace(".", "")), int(pair.new.replace(".", ""))]
        if gpu.sm in numbers:
            other = numbers[1 - numbers.index(gpu.sm)]
            return other if other in toolkit.sm else None
    return None


def _portable(view: View, gpu: KnownGpu, sms: Iterable[int]) -> list[int]:
    """Those of `sms` whose cubins run on the GPU: same major, not above it, and neither of the two a Tegra."""
    tegra = {int(c.replace(".", "")) for c in view.facts.gpus.tegra}
    return [] if gpu.sm in tegra else [s for s in sms if s not in tegra]


def runs_on(view: View, gpu: KnownGpu, sms: Iterable[int]) -> bool:
    """Whether one of the cubins `sms` (86 for sm_86) runs on the GPU."""
    sms = list(sms)
    return gpu.sm in sms or bool(_portable(view, gpu, [s for s in sms if s // 10 == gpu.sm // 10 and s <= gpu.sm]))


def _first_cuda(view: View, gpu: KnownGpu) -> str | None:
    """The oldest known CUDA whose nvcc supports the GPU's capability."""
    return min((v for v, t in view.facts.cuda.toolkits.items() if gpu.sm in t.sm), key=key, default=None)


def _dot(sm: int) -> str:
    return f"{sm // 10}.{sm % 10}"
