"""The values that a pin can take, and how far they are."""

from __future__ import annotations

import pytest

from reprokit.compat.facts import bundled
from reprokit.compat.solve.choices import PinOption, choices
from reprokit.compat.view import View
from tests.support.stacks import stack


def offered(pins: str, name: str) -> list[PinOption]:
    return choices(View(bundled(), stack(pins)), name)


def test_the_pin_itself_comes_first_and_costs_nothing() -> None:
    first, *others = offered("cuda=11.3.1", "cuda")
    assert first == PinOption("11.3.1", 0, 0)
    assert first.text not in [choice.text for choice in others]


@pytest.mark.parametrize(
    ("pins", "name", "texts"),
    [
        ("cuda=11.3", "cuda", ["11.4", "11.2", "11.5", "11.1"]),
        ("gcc=12", "gcc", ["13", "11", "14", "10"]),
        ("gcc=10.3", "gcc", ["11", "9"]),  # not 10, which 10.3 is
        ("torchvision=0.15.2+cu117", "torchvision", ["0.15.2+cu118", "0.15.1+cu117", "0.15.1+cu118"]),
        ("torch=1.9.0", "torch", ["1.9.0+cu111", "1.9.0+cu102", "1.9.1", "1.9.1+cu111", "1.9.1+cu102", "1.10.2"]),
        ("torch=1.9.0+cpu", "torch", ["1.9.1+cpu", "1.10.2+cpu"]),
        ("distro=debian:12", "distro", ["debian:11", "debian:13", "debian:10"]),
        ("base=debian:12", "base", ["debian:11", "debian:13"]),
    ],
)
def test_near_series_first_and_in_each_the_newest_patch(pins: str, name: str, texts: list[str]) -> None:
    found = [choice.text for choice in offered(pins, name)[1:]]
    assert found[: len(texts)] == texts


def test_patches_of_a_series_are_as_near() -> None:
    steps = {choice.text: choice.steps for choice in offered("torch=1.9.0", "torch")}
    assert (steps["1.9.1"], steps["1.10.0"], steps["1.10.2"], steps["1.8.0"], steps["1.11.0"]) == (0, 1, 1, 1, 2)


def test_a_base_is_as_far_as_its_cuda_and_its_distribution() -> None:
    steps = {c.text: c.steps for c in offered("base=nvidia/cuda:11.3.0-devel-ubuntu18.04", "base")}
    assert steps["nvidia/cuda:11.3.1-devel-ubuntu18.04"] == 0
    assert steps["nvidia/cuda:11.3.1-devel-ubuntu20.04"] == 1
    assert steps["nvidia/cuda:11.4.3-devel-ubuntu20.04"] == 2
