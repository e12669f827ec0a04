"""Stacks of pins for tests of the rules."""

from __future__ import annotations

from collections.abc import Callable

from reprokit.compat.facts import bundled
from reprokit.compat.gpu import parse_gpu
from reprokit.compat.model import Finding, Stack

Check = Callable[..., list[Finding]]


def stack(pins: str, gpu: str = "", purpose: str = "compile", driver: str | None = None, **more: object) -> Stack:
    """`pins` as on the command line, several GPUs joined by `;`."""
    gpus = tuple(parse_gpu(bundled(), g) for g in gpu.split(";") if g)
    return Stack(
        pins=dict(p.split("=", 1) for p in pins.split(",") if p), purpose=purpose, gpus=gpus, driver=driver, **more
    )
