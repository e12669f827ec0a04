"""The CUDA toolkit for tests that compile without a GPU: the machine's, or that of NVIDIA's Python packages."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from fused_attention import toolchain


def _packaged() -> list[Path]:
    return [path for place in sys.path if place for path in Path(place).glob("nvidia/cu*")]


def toolkit() -> Path | None:
    """The folder above bin/nvcc."""
    home = toolchain.find_cuda_home()
    found = [Path(home)] if home else [path for path in _packaged() if (path / "bin/nvcc").exists()]
    return found[0] if found else None


def disassembler() -> Path | None:
    """The folder of cuobjdump, which finds nvdisasm beside it."""
    home = toolchain.find_cuda_home()
    for folder in [*([Path(home) / "bin"] if home else []), *(path / "bin" for path in _packaged())]:
        if (folder / "cuobjdump").exists() and (folder / "nvdisasm").exists():
            return folder
    found = shutil.which("cuobjdump")
    return Path(found).parent if found and shutil.which("nvdisasm") else None
