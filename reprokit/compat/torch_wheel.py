"""PyTorch wheels: which build a pin means, and what is inside."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from reprokit.compat.facts import Facts
from reprokit.compat.version import key, series


@dataclass(frozen=True)
class TorchWheel:
    """One release in one build. `cuda` is "" for a CPU build; `sm` and `conda_sm` are None if not known.

    `uncertain`: the CUDA of the build is not verified. `verified`: its capabilities are.
    """

    version: str
    build: str
    cuda: str
    sm: tuple[int, ...] | None
    ptx: tuple[int, ...]
    verified: bool
    uncertain: bool
    conda_sm: tuple[int, ...] | None
    sources: tuple[str, ...]

    @property
    def label(self) -> str:
        return f"torch {self.version} ({'CPU build' if not self.cuda else 'CUDA ' + self.cuda})"


def torch_wheel(facts: Facts, version: str, build: str) -> TorchWheel:
    release = facts.torch.releases[version]
    doubts = set(release.unverified)
    if build and not build.startswith("cu"):
        return TorchWheel(version, build, "", (), (), True, False, None, release.source)
    uncertain = not build and bool(doubts & {"default", "all"})
    cuda = cuda_of_build(build) if build else release.default
    build = build or build_of_cuda(cuda)
    verified = not doubts & {"sm", "all", f"sm:{build}"}
    sm, ptx, conda = release.sm.get(build), release.ptx.get(build, ()), release.conda_sm.get(build)
    return TorchWheel(version, build, cuda, sm, ptx, verified, uncertain, conda, release.source)


def assumed_build(facts: Facts, version: str, cudas: Iterable[str]) -> str:
    """The build that people mean by a torch beside a CUDA: its minor's, else the newest of its major up to it.

    "" is the wheel on PyPI.
    """
    release = facts.torch.releases[version]
    minors = sorted(set(map(series, cudas)), key=key)
    majors = {series(minor, 1) for minor in minors}
    if release.default in minors:
        return ""
    exact = [build for build in release.builds if build in minors]
    older = [b for b in release.builds if series(b, 1) in majors and key(b) < key(minors[-1])]
    if not exact and series(release.default, 1) in majors:
        return ""
    found = max(exact or older, key=key, default="")
    return build_of_cuda(found) if found else ""


def cuda_of_build(build: str) -> str:
    """`11.1` of `cu111`, `9.2` of `cu92`; "" for another build."""
    digits = build.removeprefix("cu")
    return f"{digits[:-1]}.{digits[-1]}" if digits.isdigit() and len(digits) > 1 else ""


def build_of_cuda(cuda: str) -> str:
    """`cu111` of `11.1`."""
    return "cu" + cuda.replace(".", "")
