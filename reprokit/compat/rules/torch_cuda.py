"""PyTorch's CUDA build: whether it exists, and whether extensions compile against it with the CUDA of the stack."""

from __future__ import annotations

from reprokit.compat.rule import COMPILE, Verdict, combination_rule, error, unknown, warning
from reprokit.compat.torch_wheel import TorchWheel, build_of_cuda, cuda_of_build
from reprokit.compat.view import View


@combination_rule("torch-build", of="torch")
def exists(view: View, version: str) -> Verdict | None:
    """Whether the build that a local part names was published."""
    torch, release = view.pin("torch"), view.facts.torch.releases[version]
    if torch is None or torch.from_base or not torch.local or torch.local.startswith("cpu"):
        return None
    cuda = cuda_of_build(torch.local)
    if not cuda:
        return unknown(f"no fact covers the build {torch.local!r} of torch {version}")
    if cuda in release.builds:
        return None
    has = ", ".join(map(build_of_cuda, release.builds))
    if cuda in release.conda_builds:
        reason = f"torch {version} for CUDA {cuda} is a conda package; its wheels are {has}"
        return warning(reason, release.source)
    if {"builds", "all"} & set(release.unverified) or torch.local in release.cudnn:
        reason = f"no fact says whether torch {version} has a wheel {torch.local}; known are {has}"
        return unknown(reason, release.source)
    return error(f"torch {version} has no wheel {torch.local}; it has {has}", release.source)


@combination_rule("torch-cuda", of="torch_wheel cuda_minor", changes="torch cuda", purposes=COMPILE)
def torch_cuda(view: View, wheel: TorchWheel, minor: str) -> Verdict | None:
    """The CUDA whose nvcc compiles extensions against the wheel's CUDA."""
    torch, cuda = view.pin("torch"), view.pin("cuda")
    if torch is None or cuda is None or (torch.from_base and cuda.from_base) or wheel.cuda in ("", minor):
        return None
    where = "" if torch.local else " on PyPI"
    if not torch.local and minor in view.facts.torch.releases[wheel.version].builds:
        where += f" (its build {build_of_cuda(minor)} is for CUDA {minor})"
    built = f"torch {wheel.version} is built for CUDA {wheel.cuda}{where}"
    sources = (*wheel.sources, "pt_cpp_ext", "pt_cuda_mismatch")
    if wheel.cuda.split(".")[0] == minor.split(".")[0]:
        return warning(f"{built}: its cpp_extension compiles with CUDA {minor}, but warns of the other minor", sources)
    reason = f"{built}: its cpp_extension refuses to compile with CUDA {minor}, another major"
    if wheel.uncertain:
        return warning(f"{reason} (the CUDA of PyPI's build is not verified)", sources)
    return error(reason, sources)
