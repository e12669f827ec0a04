"""What a build uses: compilers, the CUDA toolkit, CUTLASS, ninja."""

import glob
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
from typing import List, NamedTuple, Optional, Sequence, Tuple

import torch

from . import archs

TIMEOUT_S = 20  # of a question to a compiler or a driver, which answer in milliseconds

# The first nvcc that the Hopper kernels are compiled with; FlashAttention-3's README asks for the same.
HOPPER_NVCC = (12, 3)


class ToolchainError(RuntimeError):
    """A tool that the build needs is missing."""


class Toolchain(NamedTuple):
    compiler: str
    compiler_version: str
    cuda_home: Optional[str]  # None: the CPU kernel alone is built
    nvcc_version: str
    nvcc_host: str  # the compiler that nvcc shall call, "" for its own choice
    archs: Tuple[str, ...]  # GPU architectures, as TORCH_CUDA_ARCH_LIST writes them
    cutlass: Optional[str]  # CUTLASS's headers; None: the Hopper kernels are left out

    def identity(self) -> List[str]:
        """Everything of it that changes what is built."""
        fields = [str(field) for field in self]
        if self.cutlass:
            # An upgrade leaves the path as it was.
            with open(os.path.join(self.cutlass, "cutlass", "version.h")) as file:
                fields.append(file.read())
        return fields


def find(ahead_of_time: bool = False) -> Toolchain:
    """The toolchain of this process's environment; `ahead_of_time`, for whatever GPUs the result may meet.

    Raises ToolchainError if there is no C++ compiler, ValueError if TORCH_CUDA_ARCH_LIST names an
    architecture that nvcc lacks.
    """
    compiler = os.environ.get("CXX") or "c++"
    version = first_line([*compiler.split(), "--version"])
    if version is None:
        raise ToolchainError("no C++ compiler: %r does not run; install g++ or name one in CXX" % compiler)
    cuda_home = find_cuda_home() if torch.version.cuda else None
    if cuda_home is None:
        return Toolchain(compiler, version, None, "", "", (), None)
    nvcc = nvcc_of(cuda_home)
    known = archs.from_help(output_of([nvcc, "--help"]) or "")
    seen = [] if ahead_of_time else archs.visible()
    chosen = archs.choose(os.environ.get("TORCH_CUDA_ARCH_LIST", ""), seen, known, archs.of_torch())
    nvcc_version = (output_of([nvcc, "--version"]) or "").strip()
    hopper = archs.wants_hopper(chosen, known) and release(nvcc_version) >= HOPPER_NVCC
    # The last word: CXX may be "ccache g++", which nvcc does not take.
    host = (os.environ.get("CXX") or os.environ.get("CC") or "").split()[-1:]
    return Toolchain(
        compiler, version, cuda_home, nvcc_version, "".join(host), tuple(chosen), find_cutlass() if hopper else None
    )


def torch_identity() -> List[str]:
    """What a binary built against this torch and this Python depends on."""
    abi = str(torch._C._GLIBCXX_USE_CXX11_ABI)
    python = str(sysconfig.get_config_var("SOABI"))
    return [torch.__version__, str(torch.version.cuda), abi, python, platform.machine()]


def torch_version() -> Tuple[int, int]:
    major, minor = re.match(r"(\d+)\.(\d+)", torch.__version__).groups()
    return int(major), int(minor)


def torch_define() -> str:
    return "-DFUSED_ATTENTION_TORCH=%d" % (torch_version()[0] * 100 + torch_version()[1])


def torch_standard() -> str:
    """The C++ standard that torch's headers ask for, which is also what its cpp_extension compiles with."""
    version = torch_version()
    return "c++20" if version >= (2, 12) else "c++17" if version >= (2, 1) else "c++14"


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
    return next((home for home in candidates if home and cuda_include(home) and os.path.isfile(nvcc_of(home))), None)


def cuda_include(cuda_home: str) -> Optional[str]:
    """The folder of the CUDA runtime's headers, or None. conda's packages have it under targets/."""
    folders = [os.path.join(cuda_home, "include"), *_targets(cuda_home, "include")]
    return next((folder for folder in folders if os.path.isfile(os.path.join(folder, "cuda_runtime.h"))), None)


def cuda_libraries(cuda_home: str) -> List[str]:
    """Folders of the CUDA runtime's library; none where the compiler finds it by itself, as in Debian's packages."""
    folders = [os.path.join(cuda_home, name) for name in ("lib64", "lib")] + _targets(cuda_home, "lib")
    return [folder for folder in folders if os.path.exists(os.path.join(folder, "libcudart.so"))]


def nvcc_of(cuda_home: str) -> str:
    return os.path.join(cuda_home, "bin", "nvcc")


def release(nvcc_version: str) -> Tuple[int, int]:
    """(12, 4) of what `nvcc --version` prints; (0, 0) if it says nothing that can be read."""
    match = re.search(r"release (\d+)\.(\d+)", nvcc_version)
    return (int(match.group(1)), int(match.group(2))) if match else (0, 0)


def find_cutlass() -> Optional[str]:
    """CUTLASS's include folder: that of CUTLASS_HOME, or of the package nvidia-cutlass; None where neither is there.

    Raises ToolchainError if CUTLASS_HOME is set and holds no CuTe.
    """
    home = os.environ.get("CUTLASS_HOME")
    if home:
        folder = os.path.join(home, "include")
        if not _has_cute(folder):
            raise ToolchainError("CUTLASS_HOME is %s, which holds no include/cute/tensor.hpp" % home)
        return folder
    package = importlib.util.find_spec("cutlass_library")
    for place in package.submodule_search_locations or () if package else ():
        folder = os.path.join(place, "source", "include")
        if _has_cute(folder):
            return folder
    return None


def find_ninja() -> str:
    """The path of ninja: on PATH, beside this Python, as in a virtual environment that is not activated, or where
    `pip install --user` puts it. Raises ToolchainError if there is none.
    """
    beside_python = os.path.dirname(sys.executable)
    for folder in (None, beside_python, sysconfig.get_path("scripts", "posix_user")):
        found = shutil.which("ninja", path=folder)
        if found:
            return found
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


def _targets(cuda_home: str, folder: str) -> List[str]:
    return sorted(glob.glob(os.path.join(cuda_home, "targets", "*", folder)))


def _has_cute(folder: str) -> bool:
    headers = (("cute", "tensor.hpp"), ("cutlass", "version.h"))
    return all(os.path.isfile(os.path.join(folder, *header)) for header in headers)
