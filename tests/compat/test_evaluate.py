"""The pins that are offered, and the APIs that the paper's code needs."""

from __future__ import annotations

import pytest

from reprokit.compat.model import KnownHost, ResolvedVersion
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
        # Not the distributions of which no fact says what they have.
        ("gcc=13,distro=debian:11", "", "compile", "gcc-distro", "distro=debian:13"),
        ("cuda=13.0,distro=debian:12,gcc=12", "", "compile", "cuda-distro", "distro=ubuntu:24.04"),
        ("llvm=10,distro=debian:12", "", "compile", "llvm-distro", "distro=ubuntu:20.04"),
        ("cmake=3.30,distro=debian:12", "", "compile", "cmake-distro", "cmake=3.25"),
        ("cmake=3.31,distro=debian:12", "", "compile", "cmake-distro", "distro=debian:13"),
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


@pytest.mark.parametrize(
    ("pins", "has"),
    [
        ("gcc=99,distro=debian:12", "; debian:12 has gcc 11, 12.2.0"),
        ("cmake=3.99,base=debian:12", "; debian:12 has cmake 3.25.1"),
        ("numpy=99,distro=debian:12", "it knows 1.11 to 2.5"),
    ],
)
def test_what_is_not_known_names_what_the_distribution_has(check: Check, pins: str, has: str) -> None:
    (finding,) = check(pins)
    assert finding.rule == "no-fact" and finding.reason.endswith(has)


def test_a_release_that_the_distribution_does_not_have_names_the_one_that_it_has(check: Check) -> None:
    (finding,) = check("python=3.11.9,distro=debian:12")
    assert finding.reason == "debian:12 has python 3.11.2, not 3.11.9" and finding.remedy == "pin python=3.11.2"


def locked(**versions: str) -> dict[str, ResolvedVersion]:
    return {name: ResolvedVersion(version, "locked by x.lock.yaml") for name, version in versions.items()}


def test_what_a_lock_has_is_what_a_pin_means(check: Check) -> None:
    """gcc 10.3 crashes with CUDA 11.2, other releases of 10 do not."""
    pins = "cuda=11.2,gcc=10"
    assert [f.severity for f in check(pins) if f.rule == "cuda-gcc"] == ["warning"]
    (finding,) = [f for f in check(pins, resolved=locked(cuda="11.2.2", gcc="10.3.0")) if f.rule == "cuda-gcc"]
    assert finding.severity == "error" and finding.subjects == ("cuda=11.2.2", "gcc=10.3.0")
    assert finding.reason.endswith("(cuda 11.2.2 and gcc 10.3.0: locked by x.lock.yaml)")
    assert not [f for f in check(pins, resolved=locked(cuda="11.2.2", gcc="10.2.1")) if f.severity != "info"]
    # Neither another build nor another version is.
    assert not check("torch=1.13.1+cu117,cuda=11.7", resolved=locked(torch="1.13.1"))


def test_a_lock_with_another_version_than_the_pin(check: Check) -> None:
    (finding,) = check("cmake=3.30", resolved=locked(cmake="3.25.1"))
    assert (finding.rule, finding.severity) == ("locked-pin", "warning")
    assert finding.reason == "cmake 3.25.1 is locked by x.lock.yaml, but the pin is 3.30"
    # A wheel of CMake comes before the distribution's.
    assert not check("cmake=3.30,distro=debian:12", resolved=locked(cmake="3.30.5"))


def test_no_fact_is_needed_on_what_is_only_resolved(check: Check) -> None:
    assert check("distro=debian:12", resolved=locked(numpy="99.0", transformers="4.11.1")) == []


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
