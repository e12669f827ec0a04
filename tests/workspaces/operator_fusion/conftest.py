from __future__ import annotations

import sys

from tests.support.paths import ROOT

for workspace in ("operator_fusion", "fused_attention"):
    sys.path.insert(0, str(ROOT / "workspaces" / workspace))

import pytest  # noqa: E402
import torch  # noqa: E402


@pytest.fixture(autouse=True)
def one_thread():
    """The tensors here are tiny: more threads would only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
