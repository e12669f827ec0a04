"""Compile the kernels with torch.utils.cpp_extension, once per distinct build, and load them."""

import glob
import json
import os
import shutil
import subprocess
import sys
import threading
from typing import List, Sequence

import torch

from . import archs, cache, diagnose, fakes, prebuilt, toolchain

SOURCE_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "csrc")
NAME = "fused_attention"

# Included by csrc/torch_*.cpp, so not compiled on their own.
INCLUDED = ("autograd.cpp", "backward.cpp", "checks.cpp", "cpu/op.cpp", "cuda/missing.cpp", "mask_ops.cpp", "ops.cpp")

# cpp_extension.load() runs in a process of its own: its environment, its output and its cache of loaded names
# stay out of the caller's. It only builds; the caller loads.
_BUILD = """
import json, sys, torch
try:
    from torch.utils import cpp_extension
except ImportError as error:
    sys.exit("error: torch.utils.cpp_extension does not import (%s); python -m pip install %s" % (error, error.name))
torch.ops.load_library = lambda path: None
cpp_extension.load(**json.loads(sys.argv[1]))
"""

_loading = threading.Lock()
_loaded = False


class BuildError(RuntimeError):
    """The kernels do not compile or load. The message begins with the cause."""


def is_loaded() -> bool:
    return _loaded


def load() -> None:
    """Register torch.ops.fused_attention.forward: from a wheel's library if it fits, else from the cache or a build.

    Call it before torch.compile(..., fullgraph=True): a build cannot be traced. Raises BuildError.
    """
    global _loaded
    with _loading:
        if not _loaded:
            try:
                load_library(prebuilt.find() or _compiled(toolchain.find()), SOURCE_FOLDER)
            except (toolchain.ToolchainError, ValueError, OSError) as error:
                raise BuildError(str(error)) from error
            fakes.register()
            _loaded = True


def ahead_of_time(folder: str) -> None:
    """Compile the library for this torch, this Python and any GPU, and copy it into `folder`, for a wheel.

    Raises BuildError, ToolchainError, ValueError or OSError.
    """
    tools = toolchain.find(ahead_of_time=True)
    prebuilt.write(folder, _compiled(tools), tools.archs)


def source_files(tools: toolchain.Toolchain) -> List[str]:
    """The sources that this toolchain compiles, as paths below SOURCE_FOLDER; nvcc's first, which take longest."""
    found = [name for name in _files_below(SOURCE_FOLDER) if name.endswith((".cpp", ".cu")) and name not in INCLUDED]
    chosen = [name for name in found if tools.cuda_home or not name.startswith("cuda/")]
    return sorted(chosen, key=lambda name: (not name.endswith(".cu"), name))


def cxx_flags(tools: toolchain.Toolchain) -> List[str]:
    # ISO C++ mode, which torch chooses, does not fuse multiply and add by default.
    words = ["-O3", "-ffp-contract=fast", "-Wno-psabi", *_defines(tools)]
    # Not a linker flag: the library must use the OpenMP runtime that torch has loaded, or torch.set_num_threads
    # would not reach the kernel.
    return words + (["-fopenmp"] if torch.backends.openmp.is_available() else [])


def cuda_flags(tools: toolchain.Toolchain) -> List[str]:
    # ptxas -v writes each kernel's registers and spills into the build log.
    words = ["-std=c++17" if tools.cutlass else "-std=c++14", "-O3", "--ptxas-options=-v", *_defines(tools)]
    if tools.nvcc_host:
        words += ["-ccbin", tools.nvcc_host]
    if tools.cutlass:
        # torch disables half's operators, which CUTLASS uses.
        words += ["-U__CUDA_NO_%s__" % name for name in ("HALF_OPERATORS", "HALF_CONVERSIONS", "HALF2_OPERATORS")]
        words += ["-U__CUDA_NO_BFLOAT16_CONVERSIONS__", "-isystem", tools.cutlass]
    return words + archs.gencode_flags(tools.archs, hopper=tools.cutlass is not None)


def build_folder(source_folder: str, names: Sequence[str], tools: toolchain.Toolchain, name: str = NAME) -> str:
    """The cache folder of exactly this build. All files of the source folder count, headers too.

    Raises OSError if the requested cache folder cannot be written.
    """
    flags = cxx_flags(tools) + (cuda_flags(tools) if tools.cuda_home else [])
    identity = tools.identity() + flags + list(names) + toolchain.torch_identity()
    key = cache.key(source_folder, _files_below(source_folder), identity)
    return cache.folder_of("fused_attention-" + key, name + ".so")


def build_library(source_folder: str, names: Sequence[str], tools: toolchain.Toolchain, name: str) -> str:
    """Load the library of these sources, compiled first if necessary. Returns its path.

    Raises BuildError; the complete log is build.log in the build's folder.
    """
    library = compile_library(source_folder, names, tools, name)
    load_library(library, source_folder)
    return library


def compile_library(source_folder: str, names: Sequence[str], tools: toolchain.Toolchain, name: str) -> str:
    """The path of the library of these sources, compiled unless the cache has it. Raises BuildError."""
    folder = build_folder(source_folder, names, tools, name)
    library = os.path.join(folder, name + ".so")
    if not cache.is_complete(library):
        with cache.locked(folder) as lock:
            if not cache.is_complete(library):
                _compile(source_folder, names, tools, library, lock)
                cache.complete(library)
    return library


def load_library(library: str, source_folder: str) -> None:
    """Register the operators of a library. Raises BuildError."""
    try:
        torch.ops.load_library(library)
    except (OSError, ImportError) as error:
        raise BuildError(diagnose.explain_load(error, [source_folder, _torch_include()])) from error


def _compiled(tools: toolchain.Toolchain) -> str:
    return compile_library(SOURCE_FOLDER, source_files(tools), tools, NAME)


def _compile(source_folder: str, names: Sequence[str], tools: toolchain.Toolchain, library: str, lock: int) -> None:
    folder = os.path.dirname(library)
    # What a killed build left may look up to date to ninja.
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder, exist_ok=True)
    options = {
        "name": os.path.splitext(os.path.basename(library))[0],
        "sources": [os.path.join(source_folder, *name.split("/")) for name in names],
        "extra_cflags": cxx_flags(tools),
        "extra_cuda_cflags": cuda_flags(tools) if tools.cuda_home else [],
        "extra_include_paths": [toolchain.cuda_include(tools.cuda_home)] if tools.needs_cuda_include() else [],
        "build_directory": folder,
        "verbose": True,
        "is_python_module": False,
    }
    done = subprocess.run(
        [sys.executable, "-c", _BUILD, json.dumps(options)],
        cwd=folder,
        env=tools.environment(),
        # The child and ninja inherit the lock as their input: it is held until the last of them has ended.
        stdin=lock,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    log = done.stdout.decode("utf-8", "replace")
    written = _write_log(log, os.path.join(folder, "build.log"))
    if done.returncode or not os.path.exists(library):
        cause = diagnose.explain_build(log, [source_folder, _torch_include()])
        raise BuildError("%s\n(%s)" % (cause, written))


def _write_log(log: str, path: str) -> str:
    """Write the log and return where it is. A full disk, which may have failed the build, may stop this too."""
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(log)
    except OSError as error:
        return "the log could not be written to %s: %s" % (path, error.strerror)
    return "the complete log: %s" % path


def _defines(tools: toolchain.Toolchain) -> List[str]:
    words = [toolchain.torch_define()] + (["-DFUSED_ATTENTION_CUDA"] if tools.cuda_home else [])
    return words + (["-DFUSED_ATTENTION_HOPPER"] if tools.cutlass else [])


def _files_below(folder: str) -> List[str]:
    paths = glob.glob(os.path.join(glob.escape(folder), "**", "*"), recursive=True)
    return sorted(os.path.relpath(path, folder).replace(os.sep, "/") for path in paths if os.path.isfile(path))


def _torch_include() -> str:
    return os.path.join(os.path.dirname(torch.__file__), "include")
