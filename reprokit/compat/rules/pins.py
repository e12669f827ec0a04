"""Pins by themselves: those that no fact covers, and those that leave a choice to the day of the build."""

from __future__ import annotations

from collections.abc import Iterator

from reprokit.compat.known import releases
from reprokit.compat.verdict import Clash, error, unknown, warning
from reprokit.compat.version import parts, series
from reprokit.compat.view import View

_WHEELS = ("torch", "torchvision", "dgl", "numpy", "flash_attn", "transformers")


def covered(view: View) -> Iterator[Clash]:
    never = {n["release"] for n in view.facts["cuda"]["never_released"]} if "cuda" in view.stack.pins else set()
    for name in view.stack.pins:
        pin = view.pin(name)
        if name == "cuda" and pin and series(pin.text) in never:
            continue
        if pin is None or name == "base" or pin.versions:
            continue
        known = releases(view.facts, name)
        span = f"; they know {known[0]} to {known[-1]}" if known else ""
        yield (pin.label,), unknown(f"the facts do not cover {pin.label}{span}")


def never_released(view: View) -> Iterator[Clash]:
    """A CUDA that NVIDIA skipped."""
    pin = view.pin("cuda")
    if pin is None:
        return
    for gap in view.facts["cuda"]["never_released"]:
        if series(pin.text) == gap["release"]:
            yield (pin.label,), error(gap["text"], gap["source"])


def exact(view: View) -> Iterator[Clash]:
    if not view.stack.pinned_exactly:
        return
    for name in _WHEELS:
        pin = view.pin(name)
        found = parts(pin.text) if pin else None
        if pin and found and len(found[0]) < 3 and len(pin.versions) > 1:
            yield (
                (pin.label,),
                warning(
                    f"{pin.text} names {len(pin.versions)} releases: the newest of the day would be taken", ("by_hand",)
                ),
            )
