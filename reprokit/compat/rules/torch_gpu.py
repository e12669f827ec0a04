"""PyTorch's wheel with the GPU: the capabilities inside decide, whatever CUDA the image has."""

from __future__ import annotations

from collections.abc import Iterator

from reprokit.compat.model import KnownGpu
from reprokit.compat.rule import CODE, Problem, Verdict, combination_rule, error, rule, unknown, warning
from reprokit.compat.rules.cuda_gpu import runs_on
from reprokit.compat.torch_wheel import TorchWheel
from reprokit.compat.view import View


@combination_rule("torch-gpu", of="torch_wheel gpu", changes="torch", purposes=CODE)
def torch_gpu(view: View, wheel: TorchWheel, gpu: KnownGpu) -> Verdict | None:
    if not wheel.cuda:
        return None
    if wheel.sm is None:
        return _unmeasured(view, wheel, gpu)
    if runs_on(view, gpu, wheel.sm) or any(p <= gpu.sm for p in wheel.ptx):
        return None
    reason = f"{wheel.label} has kernels for {_sms(wheel.sm)} and no PTX: nothing in it runs on sm_{gpu.sm}"
    if wheel.uncertain:
        return warning(f"{reason} (the CUDA of PyPI's build is not verified)", wheel.sources)
    if not wheel.verified:
        return warning(f"{reason} (this list of capabilities is not verified)", wheel.sources)
    return error(reason, (*wheel.sources, "cubin_rule"))


def _unmeasured(view: View, wheel: TorchWheel, gpu: KnownGpu) -> Verdict | None:
    """The wheel itself was not read: conda's package has all of its capabilities and more, and nvcc's limits hold."""
    if wheel.conda_sm is not None:
        if runs_on(view, gpu, wheel.conda_sm):
            return None
        reason = f"even the conda package of {wheel.label} has only {_sms(wheel.conda_sm)}: none runs on sm_{gpu.sm}"
        if wheel.uncertain or not wheel.verified:
            return warning(reason, wheel.sources)
        return error(reason, (*wheel.sources, "cubin_rule"))
    toolkit = view.facts.cuda.toolkits.get(wheel.cuda)
    if toolkit and not runs_on(view, gpu, toolkit.sm):
        reason = (
            f"{wheel.label} has no code for sm_{gpu.sm}, which its CUDA does not support; whether it has PTX is unknown"
        )
        return warning(reason, (*wheel.sources, *toolkit.source_sm))
    return unknown(f"no fact says which GPUs {wheel.label} has kernels for", wheel.sources)


def _sms(sms: tuple[int, ...]) -> str:
    return ", ".join(f"sm_{sm}" for sm in sms)


@rule("torch-cpu-build", changes="torch", purposes=CODE)
def cpu_build(view: View) -> Iterator[Problem]:
    """A CPU build where a GPU is needed."""
    torch = view.known("torch")
    if torch and torch.local.startswith("cpu") and view.stack.needs_gpu == "required":
        reason = "this is a CPU build, but the stack needs a GPU; pin a CUDA build, such as torch=2.6.0+cu124"
        yield Problem((torch.label,), error(reason, ("pt_prev",)))
