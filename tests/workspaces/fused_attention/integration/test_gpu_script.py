"""What of tests/performance/attention_gpu.py can be tried without a GPU."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.paths import ROOT

pytest.importorskip("torch")
# The flash backend takes no mask that needs a gradient.
REFUSED = """
import torch, warnings, {module}
from torch.nn.attention import SDPBackend, sdpa_kernel
q = torch.ones(1, 1, 8, 16)
try:
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        torch.nn.functional.scaled_dot_product_attention(q, q, q, torch.ones(8, 8, requires_grad=True))
except RuntimeError:
    warnings.warn("another")
"""


@pytest.mark.slow
@pytest.mark.parametrize("module, quiet", [("attention_gpu", True), ("torch", False)])
def test_torch_does_not_explain_a_backend_that_cannot_run(module, quiet):
    command = [sys.executable, "-c", REFUSED.format(module=module)]
    done = subprocess.run(command, cwd=ROOT / "tests" / "performance", capture_output=True, text=True, check=True)
    assert ("Flash attention kernel not used" in done.stderr) != quiet and "another" in done.stderr
