"""PyTorch's wheel with the GPU: the archs inside decide, whatever CUDA the image has."""

from __future__ import annotations

from collections.abc import Iterator

from reprokit.compat.model import Gpu
from reprokit.compat.rules.cuda_gpu import runs_on
from reprokit.compat.rules.torch_wheel import Wheel, wheels
from reprokit.compat.verdict import Clash, Verdict, error, shared, unknown, warning
from reprokit.compat.view import View


def check(view: View) -> Iterator[Clash]:
    torch = view.known("torch")
    if torch is None:
        return
    for gpu in view.stack.gpus:
        verdict = shared((w.label, _judge(view, w, gpu)) for w in wheels(view, torch))
        if verdict:
            yield (torch.label, gpu.label), verdict


def cpu_build(view: View) -> Iterator[Clash]:
    """A CPU build where a GPU is needed."""
    torch = view.known("torch")
    if torch and torch.local.startswith("cpu") and view.stack.needs_gpu == "required":
        yield (
            (torch.label,),
            error("this is a CPU build: it runs nothing on a GPU, which this stack needs", ("pt_prev",)),
        )


def _judge(view: View, wheel: Wheel, gpu: Gpu) -> Verdict | None:
    if not wheel.cuda:
        return None
    if wheel.sm is None:
        return _unmeasured(view, wheel, gpu)
    if runs_on(view, gpu, list(wheel.sm)) or any(p <= gpu.sm for p in wheel.ptx):
        return None
    held = ", ".join(f"sm_{s}" for s in wheel.sm)
    reason = f"the kernels in {wheel.label} are for {held}: none runs on sm_{gpu.sm}, and there is no PTX for it"
    if wheel.uncertain:
        return warning(f"{reason} (that PyPI's build is for CUDA {wheel.cuda} is not verified)", wheel.sources)
    if not wheel.verified:
        return warning(f"{reason} (this list of archs is not verified)", wheel.sources)
    return error(reason, (*wheel.sources, "cubin_rule"))


def _unmeasured(view: View, wheel: Wheel, gpu: Gpu) -> Verdict | None:
    """No list of the wheel's own archs: conda's list holds all of them and more, and nvcc's limits hold for all."""
    if wheel.conda_sm is not None:
        if runs_on(view, gpu, list(wheel.conda_sm)):
            return None
        held = ", ".join(f"sm_{s}" for s in wheel.conda_sm)
        reason = f"even the conda package of {wheel.label} has only {held}: none runs on sm_{gpu.sm}"
        if wheel.uncertain or not wheel.verified:
            return warning(reason, wheel.sources)
        return error(reason, (*wheel.sources, "cubin_rule"))
    toolkit = view.facts["cuda"]["toolkits"].get(wheel.cuda)
    if toolkit and not runs_on(view, gpu, toolkit["sm"]):
        return warning(
            f"{wheel.label} can hold no code for sm_{gpu.sm}, which its CUDA does not know; its PTX is not known",
            (*wheel.sources, *toolkit["source_sm"]),
        )
    return unknown(f"the archs inside {wheel.label} are not known here", wheel.sources)
