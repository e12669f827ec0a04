from __future__ import annotations

from collections.abc import Callable

import pytest

from reprokit.compat.evaluate import evaluate
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


@pytest.fixture
def check() -> Check:
    return lambda *args, **kwargs: evaluate(bundled(), stack(*args, **kwargs))
