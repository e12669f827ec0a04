"""The CPU kernels for AVX-512 by C++ that emulates its instructions: other files' tests of values and gradients, run
with these kernels in place of this machine's."""

from __future__ import annotations

from pathlib import Path

import pytest

# Global symbols of a library that is loaded first take precedence: the extension calls this one's select_kernel.
RUN = """
import ctypes, sys
library, folder, capability, *arguments = sys.argv[1:]
ctypes.CDLL(library, ctypes.RTLD_GLOBAL)
import pytest, torch
failed = pytest.main(["-p", "no:cacheprovider", "--basetemp", folder, *arguments])
assert torch.ops.fused_attention.cpu_capability() == capability
sys.exit(failed)
"""
TESTS = {
    "gradients": [
        "test_gradient.py::test_against_the_reference",
        "test_gradient.py::test_any_shape",
        "test_gradient.py::test_head_dimensions",
        "test_gradient.py::test_more_scores_than_a_chunk_holds",
        "test_gradient.py::test_panels_of_all_sizes",
        "test_gradient.py::test_rows_without_keys_give_nothing",
        "test_gradient.py::test_structured_masks_in_several_chunks",
        "test_gradient.py::test_without_grad_mode_nothing_is_recorded",
    ],
    "values": ["test_numerics.py", "test_packed.py::test_any_lengths"],
}


@pytest.fixture(scope="session")
def emulate_avx512(extension, compile_cpp, python):
    """Runs tests of this folder with the kernel of `name`_kernel.cpp."""

    def run(name, folder, tests):
        # Faster to compile: at -O2, the kernel's unrolled loops take a minute, and twice as long with BF16.
        library = compile_cpp(f"{name}_kernel.cpp", optimize="-Og")
        paths = [str(Path(__file__).parent / test) for test in tests]
        # A worker uses the home folder of this run.
        settings = {"PYTEST_ADDOPTS": "", "PYTEST_XDIST_WORKER": "emulated"}
        return python("-c", RUN, library._name, str(folder), f"emulated {name}", *paths, **settings)

    return run


@pytest.mark.parametrize("tests", TESTS.values(), ids=TESTS)
@pytest.mark.parametrize("name", ["avx512", "avx512_bf16"])
def test_on_emulated_instructions(emulate_avx512, tmp_path, name, tests):
    done = emulate_avx512(name, tmp_path / "run", tests)
    assert done.returncode == 0, done.stdout + done.stderr
