"""The machine: memory, disk, and the GPU that a recipe is meant for."""

from __future__ import annotations

from collections.abc import Iterator

from reprokit.compat.model import GPU
from reprokit.compat.rule import Problem, error, rule
from reprokit.compat.view import View
from reprokit.formatting import binary_size


@rule("memory")
def memory(view: View) -> Iterator[Problem]:
    host, needs = view.stack.host, view.stack.requires_memory
    if host and host.memory_bytes is not None and host.memory_bytes < needs:
        reason = "not enough memory for the paper's runs: the kernel would kill them"
        subjects = (f"requires.memory={binary_size(needs)}", f"host.memory={binary_size(host.memory_bytes)}")
        remedy = f"use a machine with at least {binary_size(needs)} of memory"
        yield Problem(subjects, error(reason, ("by_hand",), remedy))


@rule("disk")
def disk(view: View) -> Iterator[Problem]:
    host, needs = view.stack.host, view.stack.requires_disk
    if host and host.disk_free_bytes is not None and host.disk_free_bytes < needs:
        reason = "not enough disk space for the image and its build where the engine keeps images"
        subjects = (f"requires.disk={binary_size(needs)}", f"host.disk_free={binary_size(host.disk_free_bytes)}")
        remedy = (
            "free space there: `reprokit clean`, `docker image prune`; or move the engine's root folder to a "
            "larger disk: `data-root` in /etc/docker/daemon.json"
        )
        yield Problem(subjects, error(reason, ("by_hand",), remedy))


@rule("recipe-gpu", purposes=GPU)
def gpu(view: View) -> Iterator[Problem]:
    """A GPU older than all GPUs that a recipe is meant for."""
    for card in view.stack.gpus if view.stack.declared else ():
        least = min(view.stack.declared)
        if card.capability < least:
            stated = ", ".join(f"{major}.{minor}" for major, minor in view.stack.declared)
            reason = f"the recipe needs compute capability {least[0]}.{least[1]} or later"
            remedy = f"use a GPU of capability {least[0]}.{least[1]} or later"
            yield Problem((f"requires.compute_capability={stated}", card.label), error(reason, (), remedy))
