"""Single pins: versions that no fact covers, that never existed, or that stand for several releases."""

from __future__ import annotations

from collections.abc import Iterator

from reprokit.compat.known import releases
from reprokit.compat.rule import Problem, error, rule, unknown, warning
from reprokit.compat.version import parts, series
from reprokit.compat.view import View


@rule("cuda-release", changes="cuda")
def never_released(view: View) -> Iterator[Problem]:
    """A CUDA that NVIDIA skipped."""
    pin = view.pin("cuda")
    for gap in view.facts.cuda.never_released if pin else ():
        if pin and series(pin.text) == gap.release:
            yield Problem((pin.label,), error(gap.text, gap.source))


@rule("unpinned")
def exact(view: View) -> Iterator[Problem]:
    for name in ("torch", "torchvision", "dgl", "numpy", "flash_attn", "transformers"):
        pin = view.pin(name) if view.stack.pinned_exactly else None
        found = parts(pin.text) if pin else None
        if pin and found and len(found[0]) < 3 and len(pin.versions) > 1:
            reason = f"{pin.text} stands for {len(pin.versions)} releases, and pip takes the newest; pin one of them"
            yield Problem((pin.label,), warning(reason, ("by_hand",)))


@rule("no-fact")
def covered(view: View) -> Iterator[Problem]:
    never = {gap.release for gap in view.facts.cuda.never_released} if "cuda" in view.stack.pins else set()
    for name in view.stack.pins:
        pin = view.pin(name)
        if pin is None or name == "base" or pin.versions or (name == "cuda" and series(pin.text) in never):
            continue
        known = releases(view.facts, name)
        span = f"; it knows {known[0]} to {known[-1]}" if known else ""
        yield Problem((pin.label,), unknown(f"reprokit does not know {pin.label}, and cannot check it{span}"))
