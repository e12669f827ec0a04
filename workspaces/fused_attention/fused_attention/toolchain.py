"""The tools of a build: compilers, the CUDA toolkit, CUTLASS, ninja."""

import glob
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch

from . import archs

TIMEOUT_S = 20  # for a compiler's or a driver's version, which takes milliseconds

# The first nvcc that compiles the Hopper kernel; FlashAttention-3's README requires the same.
HOPPER_NVCC = (12, 3)


class ToolchainError(RuntimeError):
    """A tool that the build needs is missing."""


class Toolchain(NamedTuple):
    compiler: str
    compiler_version: str
    cuda_home: Optional[str]  # None: only the CPU kernel is built
    nvcc_version: str
    nvcc_host: str  # nvcc's host compiler; "" for its default
    archs: Tuple[str, ...]  # GPU architectures, as in TORCH_CUDA_ARCH_LIST
    cutlass: Optional[str]  # CUTLASS's headers; None: the Hopper kernel is not built

    def identity(self) -> List[str]:
        """Everything of the toolchain that changes the library."""
        fields = [str(field) for field in self]
        if self.cutlass:
            # An upgrade keeps the path.
            with open(os.path.join(self.cutlass, "cutlass", "version.h")) as file:
                fields.append(file.read())
        return fields

    def needs_cuda_include(self) -> bool:
        """Whether CUDA's headers are where torch does not look for them, as in conda's packages."""
        return self.cuda_home is not None and cuda_include(self.cuda_home) != os.path.join(self.cuda_home, "include")

    def environment(self) -> Dict[str, str]:
        """The environment of torch.utils.cpp_extension.load()."""
        # English messages, which diagnose.py recognizes. torch's check of the ABI fails for a CXX of two words.
        changes = {"CXX": self.compiler, "LC_ALL": "C", "TORCH_DONT_CHECK_COMPILER_ABI": "1", "PATH": search_path()}
        if self.cuda_home:
            changes["CUDA_HOME"] = self.cuda_home
        # torch would pass CC to nvcc beside nvcc_host.
        return {name: value for name, value in {**os.environ, **changes}.items() if name != "CC"}


def find(ahead_of_time: bool = False) -> Toolchain:
    """The toolchain of this environment; `ahead_of_time`: for any GPU instead of the visible ones.

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
    hopper = archs.includes_hopper(chosen, known) and release(nvcc_version) >= HOPPER_NVCC
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


def torch_define() -> str:
    major, minor = re.match(r"(\d+)\.(\d+)", torch.__version__).groups()
    return "-DFUSED_ATTENTION_TORCH=%d" % (int(major) * 100 + int(minor))


def find_cuda_home() -> Optional[str]:
    """The CUDA toolkit's folder, or None.

    It must have nvcc and the runtime's headers: an nvcc on PATH may be a script that calls one elsewhere.
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
    """The folder of the CUDA runtime's headers, or None. In conda's packages it is below targets/."""
    folders = [os.path.join(cuda_home, "include"), *sorted(glob.glob(os.path.join(cuda_home, "targets/*/include")))]
    return next((folder for folder in folders if os.path.isfile(os.path.join(folder, "cuda_runtime.h"))), None)


def nvcc_of(cuda_home: str) -> str:
    return os.path.join(cuda_home, "bin", "nvcc")


def release(nvcc_version: str) -> Tuple[int, int]:
    """(12, 4) of the output of `nvcc --version`; (0, 0) if it has no release."""
    match = re.search(r"release (\d+)\.(\d+)", nvcc_version)
    return (int(match.group(1)), int(match.group(2))) if match else (0, 0)


def find_cutlass() -> Optional[str]:
    """CUTLASS's include folder: of CUTLASS_HOME, or of the package nvidia-cutlass; None without either.

    Raises ToolchainError if CUTLASS_HOME is set and has no CuTe.
    """
    home = os.environ.get("CUTLASS_HOME")
    package = None if home else importlib.util.find_spec("cutlass_library")
    folders = [os.path.join(place, "source") for place in package.submodule_search_locations or ()] if package else []
    for folder in [os.path.join(place, "include") for place in ([home] if home else folders)]:
        if all(os.path.isfile(os.path.join(folder, name)) for name in ("cute/tensor.hpp", "cutlass/version.h")):
            return folder
    if home:
        raise ToolchainError("CUTLASS_HOME is %s, which has no include/cute/tensor.hpp" % home)
    return None


def search_path() -> str:
    """PATH, then where ninja may be too: beside this Python (a virtual environment that is not activated), and where
    `pip install --user` puts it."""
    folders = [os.environ.get("PATH"), os.path.dirname(sys.executable), sysconfig.get_path("scripts", "posix_user")]
    return os.pathsep.join(folder for folder in folders if folder)


def output_of(command: Sequence[str]) -> Optional[str]:
    """The output of a command, or None if it cannot be run, fails, or takes more than TIMEOUT_S."""
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
