"""Which files of csrc/ are compiled, by the folder they lie in, and what each needs."""

import glob
import os
from typing import List, Sequence

from . import toolchain

# In cuda/, and yet only for a build without CUDA: it says what is missing.
NO_CUDA = "cuda/missing.cpp"
CUDA = "cuda/"
# Code for 9.0a alone, in C++17, with CUTLASS's headers.
HOPPER = "cuda/hopper/"
# Compiled together: most of a compiler's time goes into the headers of torch that these share.
UNITS = (
    ("autograd.cpp", "backward.cpp", "direct.cpp"),
    ("checks.cpp", "cpu/op.cpp", "cuda/missing.cpp", "mask_ops.cpp", "ops.cpp"),
)


def chosen(folder: str, tools: toolchain.Toolchain) -> List[str]:
    """The sources below `folder` that this toolchain compiles, as paths with "/", the slowest first."""
    files = [source for source in every(folder) if _belongs(source, tools)]
    return sorted(files, key=lambda source: (not is_hopper(source), not is_cuda(source), source))


def units(names: Sequence[str]) -> List[List[str]]:
    """The sources called `names` as the compiler gets them: those of a unit at once, the others alone."""
    joined = [[name for name in unit if name in names] for unit in UNITS]
    alone = [[name] for name in names if not any(name in unit for unit in UNITS)]
    return [unit for unit in joined if unit] + alone


def every(folder: str) -> List[str]:
    """All sources, whatever they are for."""
    found = [
        os.path.relpath(path, folder).replace(os.sep, "/")
        for pattern in ("*.cpp", "*.cu")
        for path in glob.glob(os.path.join(glob.escape(folder), "**", pattern), recursive=True)
    ]
    return sorted(found)


def is_cuda(source: str) -> bool:
    """Whether nvcc compiles it. Such files include no header of torch: not every nvcc takes every torch's."""
    return source.endswith(".cu")


def is_hopper(source: str) -> bool:
    return source.startswith(HOPPER)


def _belongs(source: str, tools: toolchain.Toolchain) -> bool:
    if source == NO_CUDA:
        return tools.cuda_home is None
    if is_hopper(source):
        return tools.cutlass is not None
    return tools.cuda_home is not None or not source.startswith(CUDA)
