"""The library inside a wheel, with a manifest of what it was built for."""

import json
import logging
import os
import shutil
from typing import List, Optional, Sequence

from . import archs, toolchain

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "prebuilt")
_LIBRARY = "fused_attention.so"
_MANIFEST = "built_for.json"
_PARTS = ("torch", "torch's CUDA", "torch's C++ ABI", "Python", "machine")

_log = logging.getLogger("fused_attention")


def write(folder: str, library: str, built_archs: Sequence[str]) -> None:
    """Copy a library that was compiled here into `folder`, with its manifest."""
    os.makedirs(folder, exist_ok=True)
    shutil.copyfile(library, os.path.join(folder, _LIBRARY))
    with open(os.path.join(folder, _MANIFEST), "w") as file:
        json.dump({"identity": toolchain.torch_identity(), "archs": list(built_archs)}, file)


def find(folder: str = FOLDER) -> Optional[str]:
    """The path of this installation's library, or None if it has none or it does not fit this torch, Python or GPU.

    A mismatch is one warning of the logger "fused_attention".
    """
    try:
        with open(os.path.join(folder, _MANIFEST)) as file:
            built_for = json.load(file)
    except OSError:
        return None
    problem = _mismatch(built_for["identity"], built_for["archs"])
    if problem is None:
        return os.path.join(folder, _LIBRARY)
    _log.warning("fused_attention: the wheel's library is for %s: its sources are compiled instead, once", problem)
    return None


def _mismatch(identity: Sequence[str], built_archs: List[str]) -> Optional[str]:
    for part, built, here in zip(_PARTS, identity, toolchain.torch_identity()):
        if built != here:
            return "%s %s, and here is %s" % (part, built, here)
    gpu = archs.uncovered(built_archs, archs.visible())
    # Without nvcc, a new build would have no kernel for the GPU either.
    if gpu is None or toolchain.find_cuda_home() is None:
        return None
    return "GPUs of capability %s, and here is one of %s" % (" ".join(built_archs) or "none", gpu)
