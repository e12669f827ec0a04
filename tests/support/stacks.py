"""Stacks of pins for tests of the rules."""

from __future__ import annotations

from reprokit.compat.evaluate import evaluate
from reprokit.compat.facts import bundled
from reprokit.compat.gpu import parse_gpu
from reprokit.compat.model import Finding, Stack


def stack(pins: str, gpu: str = "", purpose: str = "compile", driver: str | None = None, **more: object) -> Stack:
    """`pins` as on the command line, several GPUs joined by `;`."""
    gpus = tuple(parse_gpu(bundled(), name) for name in gpu.split(";") if name)
    values = dict(pin.split("=", 1) for pin in pins.split(",") if pin)
    return Stack(pins=values, purpose=purpose, gpus=gpus, driver=driver, **more)


def check(*args: object, **more: object) -> list[Finding]:
    """The findings on `stack(*args, **more)`."""
    return evaluate(bundled(), stack(*args, **more))


def severities(findings: list[Finding]) -> dict[str, str]:
    """The severity of each rule that found something, infos left out."""
    return {finding.rule: finding.severity for finding in reversed(findings) if finding.severity != "info"}
