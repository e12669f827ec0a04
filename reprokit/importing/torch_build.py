"""The build of torch whose CUDA the compiler of the image can extend."""

from __future__ import annotations

from reprokit.compat.facts import Facts
from reprokit.importing.decision import Decision, Versions

_INDEX = "https://download.pytorch.org/whl/cu{digits}"


def torch_build(decision: Decision, versions: Versions, facts: Facts) -> tuple[str, str]:
    """The version to pin and the index that has it; PyPI's own build where its CUDA has the pinned major version.

    torch refuses to compile extensions with another major version than its own.
    """
    version = versions.pins.get("torch", "")
    cuda = decision.pins.get("cuda")
    release = facts.torch.releases.get(version)
    if release is None or cuda is None or "+" in version or _major(release.default) == _major(cuda.value):
        return version, ""
    minor = int(cuda.value.partition(".")[2] or 0)
    builds = sorted(int(b.partition(".")[2]) for b in release.builds if _major(b) == _major(cuda.value))
    if not builds:
        return version, ""
    nearest = max((b for b in builds if b <= minor), default=builds[0])
    digits = f"{_major(cuda.value)}{nearest}"
    return f"{version}+cu{digits}", _INDEX.format(digits=digits)


def torch_block(version: str, facts: Facts) -> str | dict[str, dict[str, str]] | None:
    """The entry of `blocks` for this torch; None where the CUDA of its wheel is not known, which the block asserts."""
    if "+" in version:
        return "torch"
    release = facts.torch.releases.get(version)
    return {"torch": {"cuda": release.default}} if release and release.default else None


def _major(cuda: str) -> str:
    return cuda.partition(".")[0]
