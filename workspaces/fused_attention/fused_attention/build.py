"""Compiles the kernels by ninja, once per distinct build, and loads them."""

import contextlib
import ctypes
import glob
import os
import subprocess
import threading
from typing import Any, Callable, List, Optional, Sequence

import torch

from . import cache, diagnose, fakes, ninjafile, prebuilt, sources, toolchain

SOURCE_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "csrc")
NAME = "fused_attention"

_loading = threading.Lock()
_loaded = False
_direct = None  # type: Optional[Callable[..., Any]]


class BuildError(RuntimeError):
    """The kernels could not be compiled or loaded; the message begins with the cause."""


def is_loaded() -> bool:
    return _loaded


def load() -> None:
    """Registers torch.ops.fused_attention.forward, from a wheel's library where that fits, else compiled if need be.

    Call it before torch.compile(..., fullgraph=True): a build cannot be traced.
    Raises BuildError.
    """
    global _loaded, _direct
    with _loading:
        if not _loaded:
            try:
                library = prebuilt.find() or _compiled(toolchain.find())
                load_library(library, SOURCE_FOLDER)
            except (toolchain.ToolchainError, ValueError, OSError) as error:
                raise BuildError(str(error)) from error
            fakes.register()
            _direct = _direct_call(library)
            _loaded = True


def ahead_of_time(folder: str) -> None:
    """Compiles the library for this torch, this Python and whatever GPUs, and puts it into `folder`, for a wheel.

    Raises BuildError, ToolchainError, ValueError and OSError as load() would meet them.
    """
    tools = toolchain.find(ahead_of_time=True)
    prebuilt.write(folder, _compiled(tools), tools.archs)


def direct() -> "Optional[Callable[..., Any]]":
    """The short way to the CPU kernel (csrc/direct.cpp); None where the library was built without it, or before load.

    It takes every argument of torch.ops.fused_attention.forward by position, a masks.Mask in place of mask too, and
    returns NotImplemented for a call that must go that way.
    """
    return _direct


def _direct_call(library: str) -> "Optional[Callable[..., Any]]":
    try:
        make = ctypes.PyDLL(library).fused_attention_direct
    except AttributeError:
        return None
    make.restype = ctypes.py_object
    function = make()  # type: Callable[..., Any]
    return function


def source_files(tools: toolchain.Toolchain) -> List[str]:
    return sources.chosen(SOURCE_FOLDER, tools)


def build_folder(source_folder: str, names: Sequence[str], tools: toolchain.Toolchain, name: str = NAME) -> str:
    """The folder of exactly this build. Headers count as sources: all files of the folder do.

    Raises OSError if the folder that was asked for cannot be written.
    """
    identity = tools.identity() + ninjafile.flags(tools) + list(names) + toolchain.torch_identity()
    files = glob.glob(os.path.join(glob.escape(source_folder), "**", "*"), recursive=True)
    key = cache.key(source_folder, [file for file in files if os.path.isfile(file)], identity)
    return cache.place("fused_attention-" + key, name + ".so")


def build_library(source_folder: str, names: Sequence[str], tools: toolchain.Toolchain, name: str) -> str:
    """Loads the library of these sources, compiled first if need be. Returns its path.

    Raises BuildError; the whole log lies in the build's folder as build.log.
    """
    library = compile_library(source_folder, names, tools, name)
    load_library(library, source_folder)
    return library


def compile_library(source_folder: str, names: Sequence[str], tools: toolchain.Toolchain, name: str) -> str:
    """The path of the library of these sources, compiled if it is not there yet. Raises BuildError."""
    folder = build_folder(source_folder, names, tools, name)
    library = os.path.join(folder, name + ".so")
    if not cache.is_complete(library):
        with cache.locked(folder) as lock:
            if not cache.is_complete(library):
                _compile(source_folder, names, tools, library, lock)
                cache.complete(library)
    return library


def load_library(library: str, source_folder: str) -> None:
    """Registers the operators of a library. Raises BuildError."""
    try:
        torch.ops.load_library(library)
    except (OSError, ImportError) as error:
        raise BuildError(diagnose.explain_load(error, [source_folder, *_torch_includes()])) from error


def _compiled(tools: toolchain.Toolchain) -> str:
    return compile_library(SOURCE_FOLDER, source_files(tools), tools, NAME)


def _compile(source_folder: str, names: Sequence[str], tools: toolchain.Toolchain, library: str, lock: int) -> None:
    folder, file_name = os.path.split(library)
    ninja = toolchain.find_ninja()
    # One that was cut short afterwards would be up to date for ninja.
    with contextlib.suppress(FileNotFoundError):
        os.remove(library)
    with open(os.path.join(folder, "build.ninja"), "w") as file:
        file.write(ninjafile.text(source_folder, names, tools, file_name, _cpp_extension()))
    done = subprocess.run(
        [ninja, "-v", "-j%d" % ninjafile.jobs()],
        cwd=folder,
        # Compilers that speak another language than English would hide their errors from what looks for them.
        env=dict(os.environ, LC_ALL="C"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        pass_fds=(lock,),
    )
    log = done.stdout.decode("utf-8", "replace")
    kept = _keep(log, os.path.join(folder, "build.log"))
    if done.returncode:
        cause = diagnose.explain_build(log, [source_folder, *_torch_includes()])
        raise BuildError("%s\n(%s)" % (cause, kept))


def _keep(log: str, path: str) -> str:
    """Writes the log and says where it is; what made the build fail, such as a full disk, may stop this too."""
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(log)
    except OSError as error:
        return "the whole log could not be written to %s: %s" % (path, error.strerror)
    return "the whole log: %s" % path


def _cpp_extension() -> Any:
    # Imported late: it takes longer than all the rest of a load that finds its library built.
    try:
        from torch.utils import cpp_extension
    except ImportError as error:
        # Python 3.12 and newer come without setuptools.
        raise toolchain.ToolchainError(
            "torch.utils.cpp_extension does not import (%s); install what is missing: python -m pip install %s"
            % (error, error.name)
        ) from error
    return cpp_extension


def _torch_includes() -> List[str]:
    return list(_cpp_extension().include_paths())
