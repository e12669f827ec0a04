from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock

from tests.support.paths import ROOT
from tests.support.shared import run_folder

FOLDER = Path(__file__).parent
WORKSPACE = ROOT / "workspaces" / "fused_attention"
sys.path.insert(0, str(WORKSPACE))

import torch  # noqa: E402
from fused_attention import build, fused_attention, reference  # noqa: E402

# Half a unit in the last place, relative to the smallest number that has this unit.
ROUNDING = {torch.float32: 2**-24, torch.bfloat16: 2**-8, torch.float16: 2**-11}
# A test that requests one of these fixtures compiles for long, or runs a kernel under emulation.
LONG = {"project", "wheel", "nvcc", "emulate_amx", "emulate_avx512", "emulate_cuda", "emulate_hopper"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(FOLDER):
            item.add_marker("compiler")
            if LONG & set(item.fixturenames):
                item.add_marker("long")


@pytest.fixture(scope="session")
def workspace() -> Path:
    """The folder that goes on PYTHONPATH."""
    return WORKSPACE


@pytest.fixture(scope="session")
def csrc() -> Path:
    return WORKSPACE / "fused_attention" / "csrc"


@pytest.fixture(scope="session")
def extension() -> None:
    """The compiled operators. Workers share one build: it is kept in $FUSED_ATTENTION_CACHE, behind a lock."""
    build.load()


@pytest.fixture(scope="session")
def python() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs code, or arguments, in a new Python that can import the workspace, with changes of the environment."""

    def run(*arguments: str, **changes: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *(("-c", *arguments) if len(arguments) == 1 else arguments)]
        environment = {**os.environ, "PYTHONPATH": str(WORKSPACE), **changes}
        return subprocess.run(command, capture_output=True, text=True, env=environment)

    return run


@pytest.fixture
def threads():
    """The number of threads is as before after the test."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def tensors() -> Callable[..., list[torch.Tensor]]:
    """Makes q, k and v."""

    def make(dtype=torch.float32, *, seed=0, batch=2, heads=4, kv_heads=None, q_len=33, k_len=40, dim=16):
        generator = torch.Generator().manual_seed(seed)
        shapes = [(heads, q_len), *[(kv_heads or heads, k_len)] * 2]
        return [torch.randn(batch, h, n, dim, generator=generator).to(dtype) for h, n in shapes]

    return make


@pytest.fixture(scope="session")
def assert_close() -> Callable[..., None]:
    """Compares an output with the float64 reference: the rounding to its dtype, and what float32 sums may lose.

    In bfloat16 the weights are rounded, too, before they meet the values, as in torch's own kernel.
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

    def check(q, k, v, mask=None, *, slack=5e-6, **options):
        out = fused_attention(q, k, v, mask, **options)
        assert out.dtype == q.dtype
        assert_close(out, reference.attention(q, k, v, mask, **options), v, slack)
        return out

    return check


@pytest.fixture(scope="session")
def compile_cpp(csrc: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., ctypes.CDLL]:
    """Compiles a C++ file of kernels/, with sources of the kernels, by g++ alone, without torch; once a run."""
    folder = run_folder(tmp_path_factory) / "cpp"
    folder.mkdir(exist_ok=True)

    def compile_file(name: str, *sources: str, optimize: str = "-O2") -> ctypes.CDLL:
        library = folder / f"{'-'.join((name, *sources)).replace('/', '-')}.so"
        flags = ["-std=c++14", optimize, "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas"]
        files = [str(FOLDER / "kernels" / name), *(str(csrc / source) for source in sources)]
        command = ["g++", *flags, f"-I{csrc}", f"-I{FOLDER / 'kernels'}", *files, "-o", str(library)]
        with FileLock(library.with_suffix(".lock")):
            if not library.exists():
                done = subprocess.run(command, capture_output=True, text=True)
                assert done.returncode == 0, done.stderr
        return ctypes.CDLL(str(library))

    return compile_file
