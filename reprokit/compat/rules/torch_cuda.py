"""PyTorch's CUDA build: whether it exists, and whether extensions compile against it with the CUDA of the stack."""

from __future__ import annotations

from collections.abc import Iterator

from reprokit.compat.rules.torch_wheel import Wheel, dotted, wheel, wheels
from reprokit.compat.verdict import Clash, Verdict, error, shared, unknown, warning
from reprokit.compat.version import series
from reprokit.compat.view import Pin, View


def exists(view: View) -> Iterator[Clash]:
    """Whether the build that a local part names was published."""
    torch = view.known("torch")
    if torch is None or torch.from_base or not torch.local or torch.local.startswith("cpu"):
        return
    verdict = shared((f"torch {v}", _published(view, v, torch.local)) for v in torch.versions)
    if verdict:
        yield (torch.label,), verdict


def _published(view: View, version: str, build: str) -> Verdict | None:
    release = view.facts["torch"]["releases"][version]
    cuda = dotted(build)
    if not cuda:
        return unknown(f"no fact covers the build {build!r} of torch {version}")
    if cuda in release["builds"]:
        return None
    sources = release["source"]
    had = ", ".join("cu" + b.replace(".", "") for b in release["builds"])
    if cuda in release.get("conda_builds", ()):
        return warning(f"torch {version} for CUDA {cuda} is a conda package; the wheels are {had}", sources)
    doubts = set(release.get("unverified", ()))
    if doubts & {"builds", "all"} or build in release.get("cudnn", {}):
        return unknown(f"whether torch {version} has a wheel {build} is not verified; known are {had}", sources)
    return error(f"torch {version} has no wheel {build}; there are {had}", sources)


def check(view: View) -> Iterator[Clash]:
    """The CUDA whose nvcc compiles extensions against the wheel's CUDA."""
    torch, cuda = view.known("torch"), view.known("cuda")
    if torch is None or cuda is None or (torch.from_base and cuda.from_base):
        return
    cases = (
        (f"{w.label} with CUDA {minor}", _judge(view, torch, w, minor))
        for w in wheels(view, torch)
        for minor in dict.fromkeys(series(v, 2) for v in cuda.versions)
    )
    verdict = shared(cases)
    if verdict:
        yield (torch.label, cuda.label), verdict


def _judge(view: View, torch: Pin, found: Wheel, minor: str) -> Verdict | None:
    if not found.cuda or found.cuda == minor:
        return None
    whose = f"torch {found.version} is built for CUDA {found.cuda}" + ("" if torch.local else " on PyPI")
    sources = (*found.sources, "pt_cpp_ext", "pt_cuda_mismatch")
    if minor in view.facts["torch"]["releases"][found.version]["builds"] and not torch.local:
        matching = wheel(view, found.version, "cu" + minor.replace(".", ""))
        whose += f" (its build {matching.build} is for CUDA {minor})"
    if found.cuda.split(".")[0] != minor.split(".")[0]:
        reason = f"{whose}: its cpp_extension refuses to compile with CUDA {minor}, another major"
        return (
            warning(f"{reason} (PyPI's build is not verified)", sources) if found.uncertain else error(reason, sources)
        )
    return warning(f"{whose}: its cpp_extension compiles with CUDA {minor}, but warns of the other minor", sources)
