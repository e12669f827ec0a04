"""The pins that are offered, what a lock means for a pin, the APIs that code needs, and what holds for any stack."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reprokit.compat.evaluate import evaluate
from reprokit.compat.facts import bundled
from reprokit.compat.gpu import parse_gpu
from reprokit.compat.model import PURPOSES, SEVERITIES, Finding, KnownHost, ResolvedVersion, Stack
from reprokit.compat.releases import releases, suggestions
from tests.support.stacks import check


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
        ("peft=0.16.0,accelerate=0.30.1", "", "import", "known-clash", "peft=0.14.0"),
        ("peft=0.16.0,accelerate=0.30.1", "", "import", "known-clash", "accelerate=1.0.0"),
    ],
)  # fmt: skip
def test_nearest(pins: str, gpu: str, purpose: str, rule: str, nearest: str) -> None:
    assert any(nearest in f.nearest for f in check(pins, gpu, purpose) if f.rule == rule)


def test_the_nearest_pin_ends_all_errors_of_the_same_pins() -> None:
    findings = check("peft=0.10.0,accelerate=0.20.3", "", "run")
    nearest = ("peft=0.4.0", "accelerate=0.21.0")
    assert {(f.rule, f.nearest) for f in findings} == {("known-clash", nearest), ("peft-requires", nearest)}


@pytest.mark.parametrize(
    ("pins", "rule", "reason"),
    [
        ("gcc=99,distro=debian:12", "no-fact", "; debian:12 has gcc 11, 12.2.0"),
        ("cmake=3.99,base=debian:12", "no-fact", "; debian:12 has cmake 3.25.1"),
        ("numpy=99,distro=debian:12", "no-fact", "it knows 1.11 to 2.5"),
        ("python=3.11.9,distro=debian:12", "distro-release", "debian:12 has python 3.11.2, not 3.11.9"),
    ],
)
def test_a_reason_names_what_the_distribution_has(pins: str, rule: str, reason: str) -> None:
    (finding,) = check(pins)
    assert finding.rule == rule and finding.reason.endswith(reason)
    assert rule != "distro-release" or finding.remedy == "pin python=3.11.2"


def locked(**versions: str) -> dict[str, ResolvedVersion]:
    return {name: ResolvedVersion(version, "locked by x.lock.yaml") for name, version in versions.items()}


def test_what_a_lock_has_is_what_a_pin_means() -> None:
    """gcc 10.3 crashes with CUDA 11.2, other releases of 10 do not."""
    pins = "cuda=11.2,gcc=10"
    assert [f.severity for f in check(pins) if f.rule == "cuda-gcc"] == ["warning"]
    (finding,) = [f for f in check(pins, resolved=locked(cuda="11.2.2", gcc="10.3.0")) if f.rule == "cuda-gcc"]
    assert finding.severity == "error" and finding.subjects == ("cuda=11.2.2", "gcc=10.3.0")
    assert finding.reason.endswith("(cuda 11.2.2 and gcc 10.3.0: locked by x.lock.yaml)")
    assert not [f for f in check(pins, resolved=locked(cuda="11.2.2", gcc="10.2.1")) if f.severity != "info"]
    # Neither another build nor another version is.
    assert not check("torch=1.13.1+cu117,cuda=11.7", resolved=locked(torch="1.13.1"))


def test_a_lock_with_another_version_than_the_pin() -> None:
    (finding,) = check("cmake=3.30", resolved=locked(cmake="3.25.1"))
    assert (finding.rule, finding.severity) == ("locked-pin", "warning")
    assert finding.reason == "cmake 3.25.1 is locked by x.lock.yaml, but the pin is 3.30"
    # A wheel of CMake comes before the distribution's.
    assert not check("cmake=3.30,distro=debian:12", resolved=locked(cmake="3.30.5"))
    # No fact is needed on what is only resolved.
    assert check("distro=debian:12", resolved=locked(numpy="99.0", transformers="4.11.1")) == []


def test_remedies_name_a_driver_and_a_machine() -> None:
    (finding,) = check("cuda=12.1", "A100", driver="470.57.02")
    assert set(finding.nearest) == {"cuda=11.3", "driver=530.30.02"}
    assert finding.remedy == "pin cuda=11.3; or install driver 530.30.02 or later"
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
        # From the histories of interfaces.
        ("numpy=1.24.4", "numpy:float", "error", "numpy=1.23"),
        ("numpy=1.23.5", "numpy:numpy.float", None, None),
        ("cuda=12.1", "cuda:textureReference", "error", "cuda=11.8"),
    ],
)  # fmt: skip
def test_apis(pins: str, api: str, severity: str | None, nearest: str | None) -> None:
    found = [f for f in check(pins, needs_apis=(api,)) if f.rule == "needs-api"]
    assert [f.severity for f in found] == ([severity] if severity else [])
    if nearest:
        assert found[0].nearest == (nearest,)


FACTS = bundled()
QUICK = settings(max_examples=60)

_VERSIONED = ("cuda", "cudnn", "gcc", "clang", "python", "torch", "torchvision", "dgl", "tvm", "llvm", "cmake", "numpy",
              "cutlass", "flash_attn", "transformers")  # fmt: skip
_GPUS = [
    parse_gpu(FACTS, name)
    for name in ("K80", "V100", "T4", "A100", "RTX 3090", "RTX 4090", "H100", "B200", "5090", "8.7")
]
_DRIVERS = ["418.39", "450.80.02", "470.57.02", "525.60.13", "535.54.03", "580.65.06"]
_BASES = [
    "debian:11", "debian:12", "ubuntu:18.04", "ubuntu:22.04", "python:3.8-slim-bullseye",
    "pytorch/pytorch:1.13.0-cuda11.6-cudnn8-devel", "nvidia/cuda:10.2-cudnn7-devel-ubuntu18.04",
    "nvidia/cuda:11.3.0-devel-ubuntu18.04", "nvidia/cuda:11.8.0-cudnn8-runtime-ubuntu22.04",
    "nvidia/cuda:12.1.0-base-ubuntu20.04", "nvidia/cuda:13.0.0-devel-ubuntu24.04",
]  # fmt: skip


def _texts(name: str) -> st.SearchStrategy[str]:
    exact = st.sampled_from(releases(FACTS, name))
    short = st.sampled_from(suggestions(FACTS, name)) | exact.map(lambda v: v.split(".")[0])
    if name == "torch":
        return (
            exact | short | st.tuples(exact, st.sampled_from(["cu102", "cu111", "cu118", "cu128", "cpu"])).map("+".join)
        )
    return exact | short


@st.composite
def stacks(draw: st.DrawFn) -> Stack:
    names = draw(st.lists(st.sampled_from(_VERSIONED), min_size=1, max_size=5, unique=True))
    pins = {name: draw(_texts(name)) for name in names}
    if draw(st.booleans()):
        pins["distro"] = draw(st.sampled_from(list(FACTS.distros.distros)))
    if draw(st.booleans()):
        pins["base"] = draw(st.sampled_from(_BASES))
    return Stack(
        pins=pins,
        purpose=draw(st.sampled_from(PURPOSES)),
        gpus=tuple(draw(st.lists(st.sampled_from(_GPUS), max_size=2, unique=True))),
        driver=draw(st.none() | st.sampled_from(_DRIVERS)),
        needs_apis=draw(st.sampled_from([(), ("dgl:RedditDataset.num_labels",), ("cutlass:Faith matmul kernels",)])),
        cxx_standard=draw(st.sampled_from([None, "14", "17"])),
        needs_gpu=draw(st.sampled_from(["required", "optional"])),
    )  # fmt: skip


def _applied(stack: Stack, change: str) -> Stack:
    name, _, value = change.partition("=")
    return replace(stack, driver=value) if name == "driver" else replace(stack, pins={**stack.pins, name: value})


def _same_pair(before: Finding, after: Finding, changed: str) -> bool:
    """Whether a finding speaks of the pair that the change was to mend."""
    brought = ("base", "cuda", "cudnn", "distro", "torch", "python") if changed == "base" else (changed,)
    rest = {s for s in before.subjects if s.partition("=")[0] not in brought}
    return after.rule == before.rule and after.severity == "error" and rest <= set(after.subjects)


@settings(max_examples=20)  # each judges a stack once for every change
@given(stacks())
@pytest.mark.slow
def test_any_nearest_pin_ends_the_error_of_its_pair(stack: Stack) -> None:
    for finding in evaluate(FACTS, stack):
        for change in finding.nearest:
            after = evaluate(FACTS, _applied(stack, change))
            still = [f for f in after if _same_pair(finding, f, change.partition("=")[0])]
            assert still == [], (finding, change)


@QUICK
@given(stacks())
@pytest.mark.slow
def test_findings_are_ordered_unique_and_explained(stack: Stack) -> None:
    findings = evaluate(FACTS, stack)
    assert findings == evaluate(FACTS, stack)
    severities = [SEVERITIES.index(finding.severity) for finding in findings]
    assert severities == sorted(severities) and len(set(findings)) == len(findings)
    for finding in findings:
        assert finding.subjects and finding.reason
        assert {*finding.sources} <= FACTS.sources.keys()
        # Only contradictions within the recipe itself need no source.
        if finding.severity == "error" and not finding.sources:
            assert finding.rule in ("base-pins", "recipe-gpu", "recipe-driver")
    imported = evaluate(FACTS, replace(stack, purpose="import"))
    assert not [f for f in imported if any(s.startswith(("gpu=", "driver=")) for s in f.subjects)]


@QUICK
@given(st.sampled_from(_VERSIONED), st.integers(60, 999), st.sampled_from(_GPUS), st.sampled_from(PURPOSES))
def test_versions_beyond_the_facts_are_unknown(name: str, major: int, gpu: object, purpose: str) -> None:
    stack = Stack(pins={name: f"{major}.1"}, purpose=purpose, gpus=(gpu,), driver="470.57.02")
    assert {f.severity for f in evaluate(FACTS, stack) if f.rule != "gpu-driver"} == {"unknown"}


@QUICK
@given(st.text(max_size=12), st.sampled_from(_VERSIONED))
def test_any_text_is_survived(text: str, name: str) -> None:
    evaluate(FACTS, Stack(pins={name: text, "base": text, "distro": text}, driver=text, gpus=(_GPUS[0],)))
