"""Compiles the kernels by torch.utils.cpp_extension and ninja, once per distinct build, and loads them."""

import contextlib
import glob
import os
import platform
import sysconfig
import threading
from typing import Any, Iterator, List, Mapping, Sequence

import torch

from . import cache, diagnose, toolchain

SOURCE_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "csrc")
COMMON_SOURCES = (
    "ops.cpp",
    "checks.cpp",
    "structure.cpp",
    "structure_check.cpp",
    "cpu/op.cpp",
    "cpu/select.cpp",
    "cpu/attention_default.cpp",
    "cpu/attention_avx2.cpp",
    "cpu/attention_avx512.cpp",
)
CUDA_SOURCES = ("tiles.cpp", "cuda/op.cpp", "cuda/launch.cu")
NO_CUDA_SOURCES = ("cuda/missing.cpp",)
NAME = "fused_attention"

_loading = threading.Lock()
_loaded = False


class BuildError(RuntimeError):
    """The kernels could not be compiled or loaded; the message begins with the cause."""


def is_loaded() -> bool:
    return _loaded


def load() -> None:
    """Builds the kernels where that is still to be done, and registers torch.ops.fused_attention.forward.

    Call it before torch.compile(..., fullgraph=True): a build cannot be traced.
    Raises BuildError.
    """
    global _loaded
    with _loading:
        if not _loaded:
            try:
                tools = toolchain.find()
                build_library(SOURCE_FOLDER, source_files(tools), tools, NAME)
            except (toolchain.ToolchainError, ValueError, OSError) as error:
                raise BuildError(str(error)) from error
            _loaded = True


def source_files(tools: toolchain.Toolchain) -> List[str]:
    return list(COMMON_SOURCES + (CUDA_SOURCES if tools.cuda_home else NO_CUDA_SOURCES))


def build_folder(source_folder: str, sources: Sequence[str], tools: toolchain.Toolchain) -> str:
    """The folder of exactly this build. Headers count as sources: all files of the folder do."""
    identity = tools.identity() + list(sources) + torch_identity()
    files = glob.glob(os.path.join(source_folder, "**", "*"), recursive=True)
    key = cache.key([file for file in files if os.path.isfile(file)], identity)
    return os.path.join(cache.root(), "fused_attention-" + key)


def torch_identity() -> List[str]:
    """What a binary built against this torch and this Python depends on."""
    abi = str(torch._C._GLIBCXX_USE_CXX11_ABI)
    python = str(sysconfig.get_config_var("SOABI"))
    return [torch.__version__, str(torch.version.cuda), abi, python, platform.machine()]


def build_library(source_folder: str, sources: Sequence[str], tools: toolchain.Toolchain, name: str) -> str:
    """Loads the library of these sources, compiled first if need be. Returns its path.

    Raises BuildError; the whole log then lies in the build's folder as build.log.
    """
    folder = build_folder(source_folder, sources, tools)
    library = os.path.join(folder, name + ".so")
    # Written last: a library without it is one whose build was killed.
    complete = os.path.join(folder, "complete")
    if not os.path.exists(complete):
        with cache.locked(folder):
            if not os.path.exists(complete):
                _compile(source_folder, sources, tools, name, folder)
                open(complete, "w").close()
    try:
        torch.ops.load_library(library)
    except (OSError, ImportError) as error:
        raise BuildError(diagnose.explain_load(error)) from error
    return library


def _compile(source_folder: str, sources: Sequence[str], tools: toolchain.Toolchain, name: str, folder: str) -> None:
    ninja = toolchain.ninja_folder()
    changes = {"CUDA_HOME": tools.cuda_home} if tools.cuda_home else {}
    if ninja:
        changes["PATH"] = ninja + os.pathsep + os.environ.get("PATH", "")
    with _environment(changes):
        cpp_extension = _cpp_extension()
        if tools.cuda_home:
            cpp_extension.CUDA_HOME = tools.cuda_home
        if " " in cpp_extension.TORCH_LIB_PATH:
            cpp_extension.TORCH_LIB_PATH = _linked(cpp_extension.TORCH_LIB_PATH, folder)
        try:
            cpp_extension.load(
                name=name,
                sources=[os.path.join(source_folder, source) for source in sources],
                extra_cflags=list(tools.cflags),
                extra_cuda_cflags=list(tools.cuda_flags),
                build_directory=folder,
                with_cuda=bool(tools.cuda_home),
                is_python_module=False,
            )
        except (OSError, ImportError) as error:
            raise BuildError(diagnose.explain_load(error)) from error
        except RuntimeError as error:
            raise BuildError(_describe_failure(str(error), folder)) from error


def _linked(libraries: str, folder: str) -> str:
    """A link to torch's libraries: torch hands their folder to the linker without quotes, and a space cuts it short."""
    link = os.path.join(folder, "torch_lib")
    if not os.path.islink(link):
        os.symlink(libraries, link)
    return link


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


def _describe_failure(log: str, folder: str) -> str:
    path = os.path.join(folder, "build.log")
    with open(path, "w") as file:
        file.write(log)
    return "%s\n(the whole log: %s)" % ("\n".join(diagnose.first_errors(log)), path)


@contextlib.contextmanager
def _environment(changes: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
