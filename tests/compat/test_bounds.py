from __future__ import annotations

import pytest

from reprokit.compat.evaluate import bounds
from reprokit.compat.facts import bundled
from reprokit.compat.stack import resolved_wheels
from tests.support.stacks import stack


@pytest.mark.parametrize(
    ("wheels", "fixed", "pins", "expected"),
    [
        ("matplotlib=3.7.1 numpy=2.4.6", "matplotlib", "", ["numpy<2.0"]),
        ("matplotlib=3.7.1 numpy=2.4.6", "", "", ["numpy<2.0", "matplotlib>=3.8.4"]),
        ("matplotlib=3.7.1 numpy=2.4.6", "numpy matplotlib", "", []),
        ("matplotlib=3.7.1", "", "numpy=2.4.6", ["matplotlib>=3.8.4"]),
        ("matplotlib=3.7.1 numpy=1.26.4", "", "", []),
        # From 70 up to 71, and from 82 on: the next newer one is within.
        ("setuptools=70.0.0", "", "torch=2.0.1", ["setuptools<70.0.0", "setuptools>=71.0.0"]),
        ("opencv-python-headless=4.9.0.80 numpy=2.0.0", "", "", ["numpy<2.0", "opencv-python>=4.10.0.84"]),
        # A resolver cannot change CUDA, and no fact covers a local build.
        ("torch=2.0.1", "", "cuda=12.8", []),
        ("pandas=1.5.3+local numpy=2.0.0", "", "", []),
    ],
)
def test_bounds_end_errors_between_resolved_packages(wheels: str, fixed: str, pins: str, expected: list[str]) -> None:
    resolved = resolved_wheels((wheel.split("=", 1) for wheel in wheels.split()), "")
    now = stack(pins, resolved=resolved)
    assert [bound for bound, _ in bounds(bundled(), now, fixed.split())] == expected
