"""The machine: memory, disk, and the GPU that a recipe is meant for."""

from __future__ import annotations

from collections.abc import Iterator

from reprokit.compat.rule import GPU, Problem, error, rule
from reprokit.compat.view import View


@rule("memory")
def memory(view: View) -> Iterator[Problem]:
    host, needs = view.stack.host, view.stack.requires_memory
    if host and host.memory_bytes is not None and host.memory_bytes < needs:
        reason = "not enough memory for the paper's runs: the kernel would kill them"
        subjects = (f"requires.memory={_size(needs)}", f"host.memory={_size(host.memory_bytes)}")
        yield Problem(subjects, error(reason, ("by_hand",)))


@rule("disk")
def disk(view: View) -> Iterator[Problem]:
    host, needs = view.stack.host, view.stack.requires_disk
    if host and host.disk_free_bytes is not None and host.disk_free_bytes < needs:
        reason = "not enough disk space for the image and its build where the engine keeps images"
        subjects = (f"requires.disk={_size(needs)}", f"host.disk_free={_size(host.disk_free_bytes)}")
        yield Problem(subjects, error(reason, ("by_hand",)))


@rule("recipe-gpu", purposes=GPU)
def gpu(view: View) -> Iterator[Problem]:
    """A GPU older than all that a recipe is meant for."""
    for card in view.stack.gpus if view.stack.declared else ():
        least = min(view.stack.declared)
        if card.capability < least:
            stated = ", ".join(f"{major}.{minor}" for major, minor in view.stack.declared)
            reason = f"the recipe needs compute capability {least[0]}.{least[1]} or later"
            yield Problem((f"requires.compute_capability={stated}", card.label), error(reason))


def _size(count: int) -> str:
    """`32.0 GiB`."""
    value, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.1f} {unit}" if unit != "B" else f"{count} B"
