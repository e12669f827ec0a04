"""The pins that are offered, and the APIs that the paper's code needs."""

from __future__ import annotations

import pytest

from reprokit.compat.model import KnownHost
from tests.support.stacks import Check


@pytest.mark.parametrize(
    ("pins", "gpu", "purpose", "rule", "nearest"),
    [
        ("cuda=10.2", "RTX 3090", "compile", "cuda-gpu", "cuda=11.1"),
        ("cuda=13.0", "V100", "compile", "cuda-gpu", "cuda=12.9"),
        ("tvm=0.7,llvm=12", "", "compile", "tvm-llvm", "llvm=11"),
        ("tvm=0.7,llvm=12", "", "compile", "tvm-llvm", "tvm=0.8.0"),
        ("base=nvidia/cuda:11.3.0-devel-ubuntu18.04", "", "compile", "base-tag",
         "base=nvidia/cuda:11.3.1-devel-ubuntu18.04"),
        ("base=nvidia/cuda:11.8.0-runtime-ubuntu22.04", "", "compile", "base-flavour",
         "base=nvidia/cuda:11.8.0-devel-ubuntu22.04"),
        ("cuda=11.8,gcc=12", "", "compile", "cuda-gcc", "gcc=11"),
        ("cuda=11.8,gcc=12", "", "compile", "cuda-gcc", "cuda=12.0"),
        ("torch=1.8.0", "H100", "run", "torch-gpu", "torch=2.1.0"),
        ("torch=1.8.0", "RTX 3090", "run", "torch-gpu", "torch=1.8.0+cu111"),
        ("torch=1.8.0", "RTX 3090", "run", "torch-gpu", "torch=1.13.0"),
        ("torch=1.8.0+cu102,cuda=11.1", "", "compile", "torch-cuda", "torch=1.8.0+cu111"),
        ("llvm=11,distro=debian:12", "", "compile", "llvm-distro", "distro=debian:11"),
        ("llvm=11,distro=debian:12", "", "compile", "llvm-distro", "llvm=13"),
        ("dgl=0.6.1,python=3.10", "", "import", "dgl-python", "dgl=0.8.0.post1"),
        ("torch=2.7.0,distro=ubuntu:18.04", "", "import", "wheel-glibc", "distro=ubuntu:20.04"),
        ("tvm=0.15,llvm=12.0.0", "", "compile", "tvm-llvm", "llvm=12.0.1"),
    ],
)  # fmt: skip
def test_nearest(check: Check, pins: str, gpu: str, purpose: str, rule: str, nearest: str) -> None:
    assert any(nearest in f.nearest for f in check(pins, gpu, purpose) if f.rule == rule)


def test_the_nearest_pin_ends_all_errors_of_the_same_pins(check: Check) -> None:
    found = check("peft=0.10.0,accelerate=0.20.3", "", "run")
    assert {(f.rule, f.nearest) for f in found} == {
        ("known-clash", ("peft=0.4.0", "accelerate=0.21.0")),
        ("peft-requires", ("peft=0.4.0", "accelerate=0.21.0")),
    }


def test_a_driver_is_offered_too(check: Check) -> None:
    (finding,) = check("cuda=12.1", "A100", driver="470.57.02")
    assert set(finding.nearest) == {"cuda=11.3", "driver=530.30.02"}
    assert finding.remedy == "pin cuda=11.3; or install driver 530.30.02 or later"


def test_what_no_version_resolves_still_has_a_remedy(check: Check) -> None:
    (finding,) = [f for f in check("", requires_memory=64 << 30, host=KnownHost(32 << 30)) if f.severity == "error"]
    assert finding.nearest == () and finding.remedy == "use a machine with at least 64.0 GiB of memory"


@pytest.mark.parametrize(
    ("pins", "api", "severity", "nearest"),
    [
        ("dgl=1.1.2", "dgl:RedditDataset.num_labels", "error", "dgl=0.9.1"),
        ("dgl=0.9.1", "dgl:RedditDataset.num_labels", None, None),
        ("dgl=1.0.0", "dgl:DGLGraph.adjacency_matrix_scipy", "error", "dgl=0.9.1"),
        ("dgl=1.1.0", "dgl:DGLGraph.adj(scipy_fmt=...)", "error", "dgl=1.0.4"),
        ("dgl=1.0.1", "dgl:DGLGraph.adj(scipy_fmt)", None, None),
        ("dgl=0.9.1", "dgl:no such api", "unknown", None),
        ("transformers=4.30.0", "transformers:modeling_bert", "error", None),
        ("transformers=2.5.1", "transformers:modeling_bert", None, None),
        ("transformers=main", "transformers:modeling_bert", None, None),
        ("cutlass=2.6", "cutlass:Faith matmul kernels", "error", "cutlass=2.9"),
        ("cutlass=2.9.0", "cutlass:Faith matmul kernels", None, None),
        ("cutlass=2.10", "cutlass:Faith matmul kernels", "unknown", None),
        ("gcc=12", "gcc:TACO tests", "error", "gcc=10"),
        ("tvm=0.20,llvm=15", "tvm:auto_scheduler", "error", "tvm=0.19.0"),
        ("tvm=0.7,llvm=11", "tvm:contrib.graph_executor", "error", "tvm=0.8.0"),
    ],
)  # fmt: skip
def test_apis(check: Check, pins: str, api: str, severity: str | None, nearest: str | None) -> None:
    found = [f for f in check(pins, needs_apis=(api,)) if f.rule == "needs-api"]
    assert [f.severity for f in found] == ([severity] if severity else [])
    if nearest:
        assert found[0].nearest == (nearest,)
