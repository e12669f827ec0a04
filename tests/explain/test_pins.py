"""Pins for what a log names."""

from __future__ import annotations

import pytest

from reprokit.explain.pins import pins


@pytest.mark.parametrize(("arch", "cuda"), [("sm_86", "11.1"), ("89", "11.8"), ("8.0", "11.0"), ("compute_90", "11.8")])
def test_the_oldest_cuda_of_an_architecture(arch: str, cuda: str):
    assert pins({"arch": arch}) == {"oldest_cuda": cuda}


@pytest.mark.parametrize("arch", ["", "sm_999999", "x", "99"])
def test_an_unknown_architecture_has_none(arch: str):
    assert pins({"arch": arch}) == {}
