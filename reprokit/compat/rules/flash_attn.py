"""flash-attn with CUDA, torch, Python and the GPU."""

from __future__ import annotations

from reprokit.compat.model import KnownGpu
from reprokit.compat.package_schema import FlashAttention
from reprokit.compat.rule import CODE, COMPILE, Verdict, combination_rule, error, unknown, warning
from reprokit.compat.torch_wheel import TorchWheel
from reprokit.compat.version import key, series
from reprokit.compat.view import View


def _row(view: View, version: str) -> FlashAttention | None:
    return next((row for row in view.facts.flash_attn.series if row.covers(version)), None)


@combination_rule("flash-attn-cuda", of="flash_attn cuda", purposes=CODE)
def cuda(view: View, version: str, release: str) -> Verdict | None:
    row = _row(view, version)
    if row and key(release) < key(row.cuda_min):
        setup = row.cuda_min_setup
        if setup and key(release) >= key(setup):
            reason = f"flash-attn {version} documents CUDA {row.cuda_min} or later; its setup.py accepts {setup}"
            return warning(reason, row.source)
        reason = f"flash-attn {version} needs CUDA {row.cuda_min} or later, not {series(release)}"
        return error(reason, row.source)
    if row and row.cuda_below and key(release) >= key(row.cuda_below):
        return error(f"flash-attn {version} needs CUDA before {row.cuda_below}, not {series(release)}", row.source)
    return None


@combination_rule("flash-attn-torch", of="flash_attn torch")
def torch(view: View, version: str, release: str) -> Verdict | None:
    row = _row(view, version)
    if row and row.torch_min and key(release) < key(row.torch_min):
        return error(f"flash-attn {version} needs torch {row.torch_min} or later, not {release}", row.source)
    return None


@combination_rule("flash-attn-python", of="flash_attn python")
def python(view: View, version: str, release: str) -> Verdict | None:
    row = _row(view, version)
    if row and row.python_min and key(release) < key(row.python_min):
        judged = warning if row.python_min_unverified else error
        reason = f"flash-attn {version} needs Python {row.python_min} or later, not {series(release)}"
        return judged(reason, row.source)
    return None


@combination_rule("flash-attn-same-cuda", of="flash_attn torch_wheel cuda_minor", changes="flash_attn torch cuda",
                  purposes=COMPILE)  # fmt: skip
def same_cuda(view: View, version: str, wheel: TorchWheel, minor: str) -> Verdict | None:
    """flash-attn 1.x refuses an nvcc whose CUDA is not torch's, minor included."""
    row = _row(view, version)
    if row and row.same_cuda_as_torch and wheel.cuda and not wheel.uncertain and wheel.cuda != minor:
        reason = f"flash-attn {version} refuses to build with CUDA {minor} and a torch built for CUDA {wheel.cuda}"
        return error(reason, row.source)
    return None


@combination_rule("flash-attn-gpu", of="flash_attn gpu", changes="flash_attn cuda", purposes=CODE)
def gpu(view: View, version: str, card: KnownGpu) -> Verdict | None:
    row = _row(view, version)
    if row is None:
        return None
    major, cuda_pin = card.capability[0], view.known("cuda")
    if card.sm < int(row.cc_min.replace(".", "")):
        reason = f"flash-attn {version} needs compute capability {row.cc_min} or later, not sm_{card.sm}"
        return error(reason, row.source)
    if major > int(row.cc_known_max.split(".")[0]):
        return unknown(f"no fact says whether flash-attn {version} supports capability {major}.x", row.source)
    blackwell = row.blackwell_cuda_min
    if blackwell and major >= 10 and cuda_pin and all(key(v) < key(blackwell) for v in cuda_pin.versions):
        reason = f"flash-attn {version} supports capability {major}.x only with CUDA {blackwell} or later"
        return error(reason, row.source)
    return None
