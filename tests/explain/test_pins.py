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


@pytest.mark.parametrize(("number", "cuda"), [("11040", "11.4"), ("12010", "12.1"), ("9020", "9.2")])
def test_the_newest_cuda_of_a_driver(number: str, cuda: str):
    assert pins({"driver_cuda": number}) == {"driver_newest_cuda": cuda}
