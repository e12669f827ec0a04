"""The ninja file of a build: one command a source, with what that source needs.

torch.utils.cpp_extension says where torch's headers and libraries are. Its load() is not used: it has one set of
flags for all sources (Hopper's kernel needs an architecture, a standard and headers of its own), calls objects by the
file's name alone (cpu/op.cpp and cuda/op.cpp would be one), and its lock file outlives a killed process.
"""

import os
import re
import shlex
import sysconfig
from typing import Any, List, Sequence

import torch

from . import archs, sources, toolchain


def text(source_folder: str, names: Sequence[str], tools: toolchain.Toolchain, library: str, extension: Any) -> str:
    """The file that builds `library` of the sources called `names`; `extension` is torch.utils.cpp_extension."""
    compiler = tools.compiler.split()
    includes = ["-isystem" + path for path in _includes(tools, extension)]
    lines = ["ninja_required_version = 1.3"]
    lines += _rule("compile", compiler + cxx_flags(tools) + includes, "-c $in -o $out")
    lines += _rule("join", compiler + cxx_flags(tools) + includes, "$files -x c++ -c /dev/null -o $out")
    lines += _rule("link", [*compiler, "-shared"], "$in -o $out " + _quoted(_link_flags(tools, extension)))
    if tools.cuda_home:
        nvcc = [toolchain.nvcc_of(tools.cuda_home), *_nvcc_threads(tools)]
        lines += _rule("cuda", nvcc + cuda_flags(tools), "-c $in -o $out")
        if tools.cutlass:
            lines += _rule("hopper", nvcc + hopper_flags(tools), "-c $in -o $out")
    objects = []
    for unit in sources.units(names):
        name = unit[0]
        rule = "compile" if not sources.is_cuda(name) else "hopper" if sources.is_hopper(name) else "cuda"
        objects.append(name.replace("/", "-") + ".o")
        paths = [os.path.join(source_folder, *each.split("/")) for each in unit]
        is_joined = len(unit) > 1
        inputs = " ".join(map(_path, paths))
        lines.append("build %s: %s %s" % (_path(objects[-1]), "join" if is_joined else rule, inputs))
        if is_joined:
            lines.append("  files = " + _quoted([word for path in paths for word in ("-include", path)]))
    lines.append("build %s: link %s" % (_path(library), " ".join(_path(name) for name in objects)))
    return "\n".join(lines) + "\n"


def flags(tools: toolchain.Toolchain) -> List[str]:
    """Every flag that changes the result, but for the folders of torch."""
    words = cxx_flags(tools) + (cuda_flags(tools) + hopper_flags(tools) if tools.cuda_home else [])
    # Whoever installs Python's headers later gets what needs them.
    headers = os.path.join(sysconfig.get_paths()["include"], "Python.h")
    return words + ([headers] if os.path.isfile(headers) else [])


def cxx_flags(tools: toolchain.Toolchain) -> List[str]:
    # ISO C++ mode keeps g++ from fusing multiply and add unless it is told to.
    words = ["-fPIC", "-std=" + toolchain.torch_standard(), "-O3", "-ffp-contract=fast", "-Wno-psabi"]
    words.append("-D_GLIBCXX_USE_CXX11_ABI=%d" % torch._C._GLIBCXX_USE_CXX11_ABI)
    # Not among the linker's flags: the runtime must be the one that torch has loaded, or
    # torch.set_num_threads would not reach the kernel.
    return words + _defines(tools) + (["-fopenmp"] if torch.backends.openmp.is_available() else [])


def cuda_flags(tools: toolchain.Toolchain) -> List[str]:
    return _nvcc_flags("c++14", tools) + list(archs.gencode_flags(tools.archs))


def hopper_flags(tools: toolchain.Toolchain) -> List[str]:
    words = _nvcc_flags("c++17", tools) + list(archs.gencode_flags([archs.HOPPER]))
    return [*words, "--expt-relaxed-constexpr", "-I%s" % tools.cutlass]


def jobs() -> int:
    """How many compilers run at once: $MAX_JOBS, as in torch's own builds, else one a processor."""
    asked = os.environ.get("MAX_JOBS", "")
    return int(asked) if asked.isdigit() and int(asked) > 0 else len(os.sched_getaffinity(0))


def _nvcc_flags(standard: str, tools: toolchain.Toolchain) -> List[str]:
    # With -v, ptxas writes each kernel's registers and spills into the build's log.
    words = ["-std=" + standard, "-O3", "-Xcompiler=-fPIC", "--ptxas-options=-v"]
    return words + (["-ccbin", tools.nvcc_host] if tools.nvcc_host else []) + _defines(tools)


def _nvcc_threads(tools: toolchain.Toolchain) -> List[str]:
    # Older ones compile for one architecture after the other.
    return ["--threads=%d" % jobs()] if toolchain.release(tools.nvcc_version) >= (11, 2) else []


def _defines(tools: toolchain.Toolchain) -> List[str]:
    return [toolchain.torch_define()] + (["-DFUSED_ATTENTION_HOPPER"] if tools.cutlass else [])


def _includes(tools: toolchain.Toolchain, extension: Any) -> List[str]:
    # Python's own are for csrc/direct.cpp, which is empty without them.
    folders = [*extension.include_paths(), sysconfig.get_paths()["include"]]
    if tools.cuda_home:
        folders.append(toolchain.cuda_include(tools.cuda_home))
    # Named, /usr/include would come before the folders of those headers that wrap its own.
    return [folder for folder in folders if folder != "/usr/include"]


def _link_flags(tools: toolchain.Toolchain, extension: Any) -> List[str]:
    folders, libraries = list(extension.library_paths()), ["c10", "torch_cpu", "torch", "torch_python"]
    if tools.cuda_home:
        folders += toolchain.cuda_libraries(tools.cuda_home)
        libraries += ["c10_cuda", "cudart"]
    return ["-L" + folder for folder in folders] + ["-l" + name for name in libraries]


def _rule(name: str, command: Sequence[str], files: str) -> List[str]:
    return ["rule " + name, "  command = %s %s" % (_quoted(command), files)]


def _quoted(words: Sequence[str]) -> str:
    return " ".join(shlex.quote(word) for word in words).replace("$", "$$")


def _path(path: str) -> str:
    return re.sub(r"([$ :])", r"$\1", path)
