"""Whether a variant can run on this host at all. Pure."""

from __future__ import annotations

from reprokit.recipe.model import Requires


def lacks(requires: Requires, has_gpu: bool, memory: int | None, free_disk: int | None) -> str:
    """What the host lacks, in words; empty where nothing. Sizes are bytes, None where they are not known."""
    if requires.gpu == "required" and not has_gpu:
        return "it requires a GPU, and here is none"
    if memory is not None and memory < requires.memory:
        return f"it requires {_size(requires.memory)} of memory, and here are {_size(memory)}"
    if free_disk is not None and free_disk < requires.disk:
        return f"it requires {_size(requires.disk)} of free disk, and here are {_size(free_disk)}"
    return ""


def _size(count: int) -> str:
    return f"{count / 2**30:.1f} GiB"
