"""What a build uses: compilers, flags, and the GPU architectures to compile for."""

import glob
import os
import re
import shutil
import subprocess
import sys
from typing import List, NamedTuple, Optional, Sequence, Tuple

import torch

# What a build without a visible GPU compiles for, as far as nvcc and torch know it.
DEFAULT_ARCHS = ("6.0", "7.0", "7.5", "8.0", "8.6", "8.9", "9.0", "10.0", "12.0")

TIMEOUT_S = 20  # of a question to a compiler or a driver, which answer in milliseconds


class ToolchainError(RuntimeError):
    """A tool that the build needs is missing."""


class Toolchain(NamedTuple):
    compiler: str
    compiler_version: str
    cflags: Tuple[str, ...]
    cuda_home: Optional[str]  # None: the CPU kernel alone is built
    nvcc_version: str
    cuda_flags: Tuple[str, ...]
    arch_list: str  # TORCH_CUDA_ARCH_LIST, where torch itself shall turn it into flags

    def identity(self) -> List[str]:
        """Everything of it that changes what is built."""
        return [str(field) for field in self]


def find() -> Toolchain:
    """The toolchain of this process's environment.

    Raises ToolchainError if there is no C++ compiler, ValueError if TORCH_CUDA_ARCH_LIST names an
    architecture that nvcc lacks.
    """
    compiler = os.environ.get("CXX") or "c++"
    version = first_line([*compiler.split(), "--version"])
    if version is None:
        raise ToolchainError("no C++ compiler: %r does not run; install g++ or name one in CXX" % compiler)
    cuda_home = find_cuda_home() if torch.version.cuda else None
    if cuda_home is None:
        return Toolchain(compiler, version, cxx_flags(), None, "", (), "")
    nvcc = nvcc_of(cuda_home)
    requested = os.environ.get("TORCH_CUDA_ARCH_LIST", "")
    archs = choose_archs(requested, visible_archs(), nvcc_archs(nvcc), torch_archs())
    # Names such as "Ampere" are torch's to translate; it does so when it is given no flag of its own.
    arch_flags = () if archs is None else gencode_flags(archs)
    nvcc_version = (output_of([nvcc, "--version"]) or "").strip()
    cuda_flags = ("-O3", torch_define(), *arch_flags)
    return Toolchain(compiler, version, cxx_flags(), cuda_home, nvcc_version, cuda_flags, requested)


def torch_define() -> str:
    major, minor = re.match(r"(\d+)\.(\d+)", torch.__version__).groups()
    return "-DFUSED_ATTENTION_TORCH=%d" % (int(major) * 100 + int(minor))


def cxx_flags() -> Tuple[str, ...]:
    # ISO C++ mode keeps g++ from fusing multiply and add unless it is told to.
    flags = ("-O3", "-ffp-contract=fast", "-Wno-psabi", torch_define())
    # Not among the linker's flags: the runtime must be the one that torch has loaded, or
    # torch.set_num_threads would not reach the kernel.
    return flags + (("-fopenmp",) if torch.backends.openmp.is_available() else ())


def find_cuda_home() -> Optional[str]:
    """The CUDA toolkit's folder, or None where there is none.

    It must hold nvcc and the runtime's headers: an nvcc on PATH may be a script that calls one elsewhere.
    """
    on_path = shutil.which("nvcc")
    candidates = [
        os.environ.get("CUDA_HOME"),
        os.environ.get("CUDA_PATH"),
        os.path.dirname(os.path.dirname(on_path)) if on_path else None,
        "/usr/local/cuda",
    ]
    return next((home for home in candidates if home and _is_toolkit(home)), None)


def nvcc_of(cuda_home: str) -> str:
    return os.path.join(cuda_home, "bin", "nvcc")


def nvcc_archs(nvcc: str) -> List[str]:
    """What nvcc compiles for, such as ["7.5", "9.0a"]. Read off its help: 10.2 has no --list-gpu-arch."""
    return _dotted(re.findall(r"compute_(\d+[a-z]?)\b", output_of([nvcc, "--help"]) or ""))


def torch_archs() -> List[str]:
    """What this torch's own kernels were built for; empty where it does not say."""
    return _dotted(re.findall(r"(?:sm|compute)_(\d+[a-z]?)\b", torch._C._cuda_getArchFlags() or ""))


def visible_archs() -> List[str]:
    if not torch.cuda.is_available():
        return []
    return ["%d.%d" % torch.cuda.get_device_capability(i) for i in range(torch.cuda.device_count())]


def choose_archs(
    requested: str, visible: Sequence[str], nvcc_known: Sequence[str], torch_known: Sequence[str]
) -> Optional[List[str]]:
    """The architectures to compile for, a trailing "+PTX" where PTX is kept for GPUs yet unknown.

    `requested` is TORCH_CUDA_ARCH_LIST, which wins; None is returned if it holds names. Then the visible
    GPUs; one newer than nvcc gets the newest PTX. Without either, DEFAULT_ARCHS as far as nvcc and torch know
    them. Raises ValueError if nvcc knows nothing that was asked for.
    """
    wanted = [arch for arch in re.split(r"[;\s]+", requested) if arch]
    if any(not re.match(r"\d+\.\d+[a-z]?(\+PTX)?$", arch) for arch in wanted):
        return None
    if wanted:
        unknown = [arch for arch in wanted if arch.replace("+PTX", "") not in nvcc_known]
        if unknown:
            raise ValueError(
                "TORCH_CUDA_ARCH_LIST is %r, and this nvcc does not know %s; it knows %s"
                % (requested, ", ".join(unknown), ", ".join(nvcc_known))
            )
        return wanted
    plain = sorted((arch for arch in nvcc_known if arch[-1].isdigit()), key=_order)
    if not plain:
        raise ValueError("nvcc names no architecture in its help; set TORCH_CUDA_ARCH_LIST, such as to 8.0")
    chosen = {arch if arch in plain else plain[-1] + "+PTX" for arch in visible}
    if not chosen:
        known = [arch for arch in DEFAULT_ARCHS if arch in plain]
        shared = [arch for arch in known if arch in torch_known] or known or [plain[-1]]
        chosen = set(shared[:-1]) | {shared[-1] + "+PTX"}
    return sorted(chosen, key=_order)


def gencode_flags(archs: Sequence[str]) -> Tuple[str, ...]:
    flags = []  # type: List[str]
    for arch in archs:
        number = arch.replace("+PTX", "").replace(".", "")
        flags.append("-gencode=arch=compute_%s,code=sm_%s" % (number, number))
        if arch.endswith("+PTX"):
            flags.append("-gencode=arch=compute_%s,code=compute_%s" % (number, number))
    return tuple(flags)


def ninja_folder() -> Optional[str]:
    """The folder to add to PATH for ninja; None if it is there already.

    A virtual environment that is used but not activated has ninja beside its python.
    Raises ToolchainError if there is none.
    """
    if shutil.which("ninja"):
        return None
    beside_python = os.path.dirname(sys.executable)
    if shutil.which("ninja", path=beside_python):
        return beside_python
    raise ToolchainError("ninja is not found; install it: python -m pip install ninja")


def output_of(command: Sequence[str]) -> Optional[str]:
    """What a command prints, or None if it cannot be run, fails, or takes more than TIMEOUT_S."""
    try:
        done = subprocess.run(
            list(command),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            universal_newlines=True,
            timeout=TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def first_line(command: Sequence[str]) -> Optional[str]:
    text = output_of(command)
    return text.splitlines()[0] if text else None


def _is_toolkit(home: str) -> bool:
    # conda's packages have the headers under targets/.
    headers = [os.path.join(home, "include"), *glob.glob(os.path.join(home, "targets", "*", "include"))]
    has_headers = any(os.path.isfile(os.path.join(folder, "cuda_runtime.h")) for folder in headers)
    return has_headers and os.path.isfile(nvcc_of(home))


def _dotted(numbers: Sequence[str]) -> List[str]:
    """["75", "90a"] to ["7.5", "9.0a"], without repeats, in order."""
    archs = {re.sub(r"(\d)([a-z]?)$", r".\1\2", number) for number in numbers}
    return sorted(archs, key=_order)


def _order(arch: str) -> Tuple[int, int, str]:
    major, minor, suffix = re.match(r"(\d+)\.(\d+)(.*)", arch).groups()
    return int(major), int(minor), suffix
