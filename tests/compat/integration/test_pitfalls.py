"""Every failure met by hand that pins, GPU or host can predict is predicted."""

from __future__ import annotations

import pytest

from reprokit.compat.model import KnownHost
from tests.support.stacks import Check

GIB = 1 << 30

# name: (pins, GPU, what else the stack says, rule that speaks, its severity)
PITFALLS = {
    "base-tag-gone": ("base=nvidia/cuda:11.3.0-devel-ubuntu18.04", "", {}, "base-tag", "error"),
    "submodule-missing": ("gcc=11", "", {"bare_projects": ("bytetransformer",)}, "submodules", "warning"),
    "unpinned-newest": ("torch=1.13", "", {"pinned_exactly": True}, "unpinned", "warning"),
    "cuda-mismatch": ("torch=2.1.0,cuda=11.3", "", {}, "torch-cuda", "error"),
    "glibcxx": ("gcc=11,distro=ubuntu:18.04", "", {}, "gcc-distro", "warning"),
    "dgl-num-labels": ("dgl=1.1.2", "", {"needs_apis": ("dgl:RedditDataset.num_labels",)}, "needs-api", "error"),
    "dgl-adj-scipy": ("dgl=1.1.0", "", {"needs_apis": ("dgl:DGLGraph.adj(scipy_fmt)",)}, "needs-api", "error"),
    "dgl-adjacency-matrix-scipy": (
        "dgl=1.0.0", "", {"needs_apis": ("dgl:DGLGraph.adjacency_matrix_scipy",)}, "needs-api", "error"),
    "dgl-bool-dlpack": ("dgl=0.7.1,torch=1.10.0", "", {}, "dgl-torch", "error"),
    "host-oom": ("gcc=11", "", {"requires_memory": 64 * GIB, "host": KnownHost(32 * GIB)}, "memory", "error"),
    "tvm-llvm-off": ("tvm=0.7", "", {}, "tvm-backends", "warning"),
    "tvm-cuda-off": ("tvm=0.7,llvm=11", "RTX 3090", {"needs_gpu": "required"}, "tvm-backends", "warning"),
    "llvm-too-new": ("tvm=0.7,llvm=12", "", {}, "tvm-llvm", "error"),
    "llvm-from-source": ("llvm=11,distro=debian:12", "", {}, "llvm-distro", "error"),
    "llvm-not-for-distro": ("llvm=10,distro=ubuntu:16.04", "", {}, "llvm-distro", "error"),
    "cudnn-header": ("cudnn=8,base=nvidia/cuda:11.8.0-devel-ubuntu22.04", "", {}, "base-cudnn", "info"),
    "devel-vs-runtime": ("base=nvidia/cuda:11.8.0-runtime-ubuntu22.04", "", {}, "base-flavour", "error"),
    "cuda-too-old-for-gpu": ("cuda=10.2", "RTX 4080", {}, "cuda-gpu", "error"),
    "faith-arch-contradiction": ("cuda=10.2", "8.0", {}, "cuda-gpu", "error"),
    "faith-cutlass": ("cutlass=2.6", "", {"needs_apis": ("cutlass:Faith matmul kernels",)}, "needs-api", "error"),
    "gcc-too-new": ("cuda=11.8,gcc=12", "", {}, "cuda-gcc", "error"),
    "docker-root-dir-full": (
        "gcc=11", "", {"requires_disk": 50 * GIB, "host": KnownHost(None, 9 * GIB)}, "disk", "error"),
}  # fmt: skip


@pytest.mark.parametrize("name", PITFALLS)
def test_pitfall_is_predicted(check: Check, name: str) -> None:
    pins, gpu, more, rule, severity = PITFALLS[name]
    assert (rule, severity) in {(f.rule, f.severity) for f in check(pins, gpu, **more)}
