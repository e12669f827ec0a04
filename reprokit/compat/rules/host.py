"""The machine: memory, disk, and the GPU that a recipe is meant for."""

from __future__ import annotations

from collections.abc import Iterator

from reprokit.compat.verdict import Clash, error
from reprokit.compat.view import View


def memory(view: View) -> Iterator[Clash]:
    host, needs = view.stack.host, view.stack.requires_memory
    if host and host.memory_bytes is not None and host.memory_bytes < needs:
        yield (
            (f"requires.memory={size(needs)}", f"host.memory={size(host.memory_bytes)}"),
            error("the host has less memory than the paper's runs need: the kernel would kill them", ("by_hand",)),
        )


def disk(view: View) -> Iterator[Clash]:
    host, needs = view.stack.host, view.stack.requires_disk
    if host and host.disk_free_bytes is not None and host.disk_free_bytes < needs:
        yield (
            (f"requires.disk={size(needs)}", f"host.disk_free={size(host.disk_free_bytes)}"),
            error("less disk is free where images are kept than image and build need", ("by_hand",)),
        )


def gpu(view: View) -> Iterator[Clash]:
    """A GPU older than all that a recipe is meant for."""
    declared = view.stack.declared
    if not declared:
        return
    least = min(declared)
    for card in view.stack.gpus:
        if card.capability < least:
            stated = ", ".join(f"{a}.{b}" for a, b in declared)
            yield (
                (f"requires.compute_capability={stated}", card.label),
                error(f"the recipe is meant for compute capability {least[0]}.{least[1]} and later"),
            )


def size(count: int) -> str:
    """`32.0 GiB`."""
    value, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.1f} {unit}" if unit != "B" else f"{count} B"
