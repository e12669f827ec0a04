from __future__ import annotations

import ctypes

import pytest


@pytest.fixture(scope="session")
def hopper_library(compile_cpp) -> ctypes.CDLL:
    """hopper_kernel.cpp: the Hopper kernel under emulation, and its host side."""
    built = compile_cpp("hopper_kernel.cpp")
    built.order.restype = ctypes.c_int64
    built.swizzled.restype = ctypes.c_uint32
    return built
