"""Extensions of torch that look for its CUDA: apex if it is built, bitsandbytes if it is imported."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.specifiers import SpecifierSet

from reprokit.compat.model import CODE, COMPILE
from reprokit.compat.rule import Verdict, combination_rule, error
from reprokit.compat.torch_wheel import TorchWheel
from reprokit.compat.version import older
from reprokit.compat.view import View


@combination_rule("apex-same-cuda", of="apex torch_wheel cuda_minor", changes="torch cuda", purposes=COMPILE)
def apex(view: View, version: str, wheel: TorchWheel, minor: str) -> Iterator[Verdict]:
    """apex refuses an nvcc whose CUDA is not torch's, minor included."""
    if wheel.cuda and not wheel.uncertain and wheel.cuda != minor:
        reason = f"apex refuses to build its CUDA extensions with CUDA {minor} and {wheel.label}"
        yield error(reason, view.facts.wheels["apex"].source)


@combination_rule("bitsandbytes-torch", of="bitsandbytes torch_wheel", changes="bitsandbytes torch", purposes=CODE)
def bitsandbytes(view: View, version: str, wheel: TorchWheel) -> Iterator[Verdict]:
    """bitsandbytes loads a library named after torch's CUDA; some releases import `triton.ops`, which is gone since."""
    table = view.facts.wheels["bitsandbytes"]
    cudas, torch = table.releases[version].cuda, table.releases[version].torch
    if wheel.cuda and not SpecifierSet(torch).contains(wheel.version):
        reason = f"bitsandbytes {version} works with torch {torch}, not {wheel.version}: it imports triton.ops"
        yield error(f"{reason}, which newer triton lacks", table.source)
    if cudas and wheel.cuda and not wheel.uncertain and wheel.cuda not in cudas:
        has = f"the wheel of bitsandbytes {version} has libraries for CUDA {', '.join(cudas)}"
        yield error(f"{has}, none for {wheel.label}", table.source)


@combination_rule("bitsandbytes-cuda", of="bitsandbytes cuda_minor", changes="bitsandbytes cuda", purposes=CODE)
def bitsandbytes_alone(view: View, version: str, minor: str) -> Iterator[Verdict]:
    """Before 0.43 bitsandbytes looked for a CUDA itself, where torch's is not known."""
    table = view.facts.wheels["bitsandbytes"]
    cudas = table.releases[version].cuda
    if cudas and minor not in cudas and older(version, "0.43") and view.pin("torch") is None:
        has = f"the wheel of bitsandbytes {version} has libraries for CUDA {', '.join(cudas)}"
        yield error(f"{has}, none for {minor}", table.source)
