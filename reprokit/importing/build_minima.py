"""What a build refuses to do without: minima of CUDA and CMake, and the distributions that meet them."""

from __future__ import annotations

from collections.abc import Sequence

from packaging.utils import canonicalize_name

from reprokit.compat.facts import Facts
from reprokit.importing.decision import Overruled, PythonBase, Question
from reprokit.importing.model import Statement
from reprokit.importing.requirement_lines import valid_requirement
from reprokit.importing.torch_build import meets

_KERNELS = ("torch-cuda", "cuda")


def minima(statements: Sequence[Statement]) -> list[Statement]:
    """The minima that CMake files require; of CMake only without a wheel of it, and only of the root's file."""
    found = [s for s in statements if s.format == "cmake" and s.scope == "run" and s.value.startswith(">=")]
    kernels = any(s.subject == "extension" and s.value in _KERNELS for s in statements)
    wheel = any(s.subject == "package" and _is_cmake(s.value) for s in statements)
    return [
        *(s for s in found if s.subject == "cuda" and kernels),
        *(s for s in found if s.subject == "cmake" and "/" not in s.origin.file and not wheel),
    ]


def unmet(base: PythonBase, required: Sequence[Statement], facts: Facts) -> list[Overruled]:
    """The minima that a distribution does not meet."""
    distro = facts.distros.distros[base.distro]
    have = {"cuda": distro.cuda_package.cuda if distro.cuda_package else "", "cmake": distro.cmake}
    names = {"cuda": "CUDA", "cmake": "CMake"}
    return [
        Overruled(f"{names[s.subject]} {s.value}", s.origin, f"{base.distro} has {have[s.subject] or 'none'}")
        for s in required
        if not meets(have[s.subject], s.value)
    ]


def questions(base: PythonBase, required: Sequence[Statement], facts: Facts) -> list[Question]:
    """One for each minimum that the chosen distribution does not meet: the build stops there."""
    remedies = {"CUDA": "set `base` to an image of nvidia/cuda", "CMake": "add a newer cmake to `wheels`"}
    return [
        Question(f"{lost.value} is required, and {lost.why}: {remedies[lost.value.split()[0]]}", lost.origin)
        for lost in unmet(base, required, facts)
    ]


def _is_cmake(text: str) -> bool:
    requirement = valid_requirement(text)
    return requirement is not None and canonicalize_name(requirement.name) == "cmake"
