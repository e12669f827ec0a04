"""GPU architectures: which ones a build is for, and nvcc's flags for them. "9.0a" is code for 9.0 alone."""

import re
from typing import List, Optional, Sequence, Tuple

import torch

# Without a visible GPU, as far as nvcc and torch know them. 9.0 and 10.0 without their "a": that code runs on later
# GPUs of the same major too, and the general kernels need nothing that the letter allows.
DEFAULT_ARCHS = ("6.0", "7.0", "7.5", "8.0", "8.6", "8.9", "9.0", "10.0", "12.0")

# Generations in TORCH_CUDA_ARCH_LIST, as torch.utils.cpp_extension reads them.
_NAMED = {
    "Pascal": "6.0;6.1+PTX",
    "Volta": "7.0+PTX",
    "Turing": "7.5+PTX",
    "Ampere": "8.0;8.6+PTX",
    "Ada": "8.9+PTX",
    "Hopper": "9.0+PTX",
    "Blackwell": "10.0;12.0+PTX",
}


def from_help(text: str) -> List[str]:
    """nvcc's architectures by its help, such as ["7.5", "9.0a"]; nvcc 10.2 has no --list-gpu-arch."""
    return _dotted(re.findall(r"compute_(\d+[a-z]?)\b", text))


def of_torch() -> List[str]:
    """The architectures of this torch's own kernels; empty if unknown."""
    return _dotted(re.findall(r"(?:sm|compute)_(\d+[a-z]?)\b", torch._C._cuda_getArchFlags() or ""))


def visible() -> List[str]:
    """The capabilities of the GPUs that this process may use."""
    if not torch.cuda.is_available():
        return []
    return ["%d.%d" % torch.cuda.get_device_capability(i) for i in range(torch.cuda.device_count())]


def choose(requested: str, seen: Sequence[str], nvcc_known: Sequence[str], torch_known: Sequence[str]) -> List[str]:
    """The architectures to compile for, with a trailing "+PTX" where PTX is kept for later GPUs.

    `requested` (TORCH_CUDA_ARCH_LIST) comes first, then the GPUs `seen` (one newer than nvcc gets the newest PTX),
    then DEFAULT_ARCHS as far as nvcc and torch know them. Raises ValueError if nvcc lacks a requested one, or a
    word is no architecture.
    """
    explicit = _requested(requested)
    unknown = [arch for arch in explicit if arch.replace("+PTX", "") not in nvcc_known]
    if unknown:
        raise ValueError(
            "TORCH_CUDA_ARCH_LIST is %r, and this nvcc does not know %s; it knows %s"
            % (requested, ", ".join(unknown), ", ".join(nvcc_known))
        )
    if explicit:
        return explicit
    plain = sorted((arch for arch in nvcc_known if arch[-1].isdigit()), key=_order)
    if not plain:
        raise ValueError("nvcc names no architecture in its help; set TORCH_CUDA_ARCH_LIST, such as to 8.0")
    chosen = {arch if arch in plain else plain[-1] + "+PTX" for arch in seen}
    if not chosen:
        known = [arch for arch in DEFAULT_ARCHS if arch in plain]
        shared = [arch for arch in known if arch in torch_known] or known or [plain[-1]]
        chosen = set(shared[:-1]) | {shared[-1] + "+PTX"}
    return sorted(chosen, key=_order)


def includes_hopper(chosen: Sequence[str], nvcc_known: Sequence[str]) -> bool:
    """Whether nvcc can compile for Hopper alone and a Hopper GPU is among the chosen ones."""
    return "9.0a" in nvcc_known and any(arch.replace("+PTX", "") in ("9.0", "9.0a") for arch in chosen)


def gencode_flags(chosen: Sequence[str], hopper: bool = False) -> List[str]:
    """nvcc's flags. hopper: 9.0 gets the code of 9.0a, which Hopper's own kernel needs."""
    flags = []  # type: List[str]
    for arch in chosen:
        number = arch.replace("+PTX", "").replace(".", "")
        machine = "90a" if hopper and number == "90" else number
        flags.append("-gencode=arch=compute_%s,code=sm_%s" % (machine, machine))
        if arch.endswith("+PTX"):
            flags.append("-gencode=arch=compute_%s,code=compute_%s" % (number, number))
    return sorted(set(flags), key=flags.index)


def uncovered(built: Sequence[str], seen: Sequence[str]) -> Optional[str]:
    """The first of the GPUs `seen` that can run nothing of `built`, or None.

    Machine code runs on its own major with the same or a later minor, PTX on everything later, and code with a
    letter on exactly its own.
    """
    for gpu in seen:
        runs = any(
            arch[:-1] == gpu
            if arch[-1].isalpha() and not arch.endswith("+PTX")
            else _order(arch) <= _order(gpu) and (arch.endswith("+PTX") or _order(arch)[0] == _order(gpu)[0])
            for arch in built
        )
        if not runs:
            return gpu
    return None


def _requested(text: str) -> List[str]:
    found = []  # type: List[str]
    for word in re.split(r"[;\s]+", text):
        for arch in _NAMED.get(word, word).split(";"):
            if arch and not re.match(r"\d+\.\d+[a-z]?(\+PTX)?$", arch):
                raise ValueError(
                    "TORCH_CUDA_ARCH_LIST is %r, and %s is no architecture; allowed are numbers such as 8.6 or 9.0a, "
                    "with +PTX or without, and %s" % (text, word, ", ".join(_NAMED))
                )
            if arch and arch not in found:
                found.append(arch)
    return found


def _dotted(numbers: Sequence[str]) -> List[str]:
    """["75", "90a"] to ["7.5", "9.0a"], sorted, without repeats."""
    return sorted({re.sub(r"(\d)([a-z]?)$", r".\1\2", number) for number in numbers}, key=_order)


def _order(arch: str) -> Tuple[int, int, str]:
    major, minor, suffix = re.match(r"(\d+)\.(\d+)(.*)", arch.replace("+PTX", "")).groups()
    return int(major), int(minor), suffix
