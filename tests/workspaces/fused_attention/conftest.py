from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock

from tests.support.paths import ROOT
from tests.support.shared import run_folder

WORKSPACE = ROOT / "workspaces" / "fused_attention"
KERNELS = Path(__file__).parent / "kernels"
sys.path.insert(0, str(WORKSPACE))

import torch  # noqa: E402
from fused_attention import fused_attention, reference  # noqa: E402

# Half a unit in the last place, relative to the smallest number that has this unit.
ROUNDING = {torch.float32: 2**-24, torch.bfloat16: 2**-8, torch.float16: 2**-11}


@pytest.fixture(scope="session")
def workspace() -> Path:
    """The folder that goes on PYTHONPATH."""
    return WORKSPACE


@pytest.fixture(scope="session")
def csrc() -> Path:
    return WORKSPACE / "fused_attention" / "csrc"


@pytest.fixture(scope="session")
def assert_close() -> Callable[..., None]:
    """Compares an output with the float64 reference: the rounding to its dtype, and what float32 sums may lose.

    In bfloat16 the weights are rounded, too, before they meet the values, as torch's own kernel does.
    """

    def check(out: torch.Tensor, expected: torch.Tensor, v: torch.Tensor, slack: float = 5e-6) -> None:
        assert out.shape == expected.shape
        largest = float(v.double().abs().max()) if v.numel() else 0.0
        if out.dtype == torch.bfloat16:
            slack = max(slack, ROUNDING[torch.bfloat16])
        allowed = ROUNDING[out.dtype] * expected.abs() * 1.01 + slack * largest
        error = (out.double() - expected).abs()
        # Written so that a NaN fails.
        assert bool((error <= allowed).all()), f"error {error.max()}, allowed {allowed.max()}"

    return check


@pytest.fixture(scope="session")
def assert_matches(assert_close: Callable[..., None]) -> Callable[..., torch.Tensor]:
    """Calls fused_attention and compares it with the reference. Returns the output."""

    def check(q, k, v, mask=None, *, is_causal=False, scale=None, slack=5e-6):
        out = fused_attention(q, k, v, mask, is_causal=is_causal, scale=scale)
        assert out.dtype == q.dtype
        assert_close(out, reference.attention(q, k, v, mask, is_causal, scale), v, slack)
        return out

    return check


@pytest.fixture(scope="session")
def compile_cpp(csrc: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., ctypes.CDLL]:
    """Compiles a C++ file of kernels/, with sources of the kernels, by g++ alone, without torch; once a run."""
    folder = run_folder(tmp_path_factory) / "cpp"
    folder.mkdir(exist_ok=True)

    def compile_file(name: str, *sources: str) -> ctypes.CDLL:
        library = folder / f"{'-'.join((name, *sources)).replace('/', '-')}.so"
        flags = ["-std=c++14", "-O2", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas"]
        files = [str(KERNELS / name), *(str(csrc / source) for source in sources)]
        command = ["g++", *flags, f"-I{csrc}", f"-I{KERNELS}", *files, "-o", str(library)]
        with FileLock(library.with_suffix(".lock")):
            if not library.exists():
                done = subprocess.run(command, capture_output=True, text=True)
                assert done.returncode == 0, done.stderr
        return ctypes.CDLL(str(library))

    return compile_file
