"""The platform of a base."""

from __future__ import annotations

from reprokit.image.platform import platform_of
from reprokit.supply.kinds.wheels.platform import Platform
from tests.support.builds import target_of


def test_the_platform_is_that_of_the_base():
    assert platform_of(target_of("x"), "amd64") == Platform("3.11", "2.36", "x86_64")
    assert platform_of(target_of("x"), "arm64") == Platform("3.11", "2.36", "aarch64")
    older = target_of("x", base="nvidia/cuda:11.8.0-devel-ubuntu20.04")
    assert platform_of(older, "amd64") == Platform("3.11", "2.31", "x86_64")
