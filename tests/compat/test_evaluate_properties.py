"""What must hold for any stack: suggestions work, the unknown fails nothing, the order is fixed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reprokit.compat.evaluate import evaluate
from reprokit.compat.facts import bundled
from reprokit.compat.gpu import parse_gpu
from reprokit.compat.known import releases, suggestions
from reprokit.compat.model import PURPOSES, SEVERITIES, Finding, Stack

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
    found = evaluate(FACTS, stack)
    assert found == evaluate(FACTS, stack)
    assert [SEVERITIES.index(f.severity) for f in found] == sorted(SEVERITIES.index(f.severity) for f in found)
    assert len(set(found)) == len(found)
    for finding in found:
        assert finding.subjects
        assert finding.reason
        assert all(s in FACTS.sources for s in finding.sources)
        # Only contradictions within the recipe itself need no source.
        assert (
            finding.sources
            or finding.severity != "error"
            or finding.rule in ("base-pins", "recipe-gpu", "recipe-driver")
        )


@QUICK
@given(st.sampled_from(_VERSIONED), st.integers(60, 999), st.sampled_from(_GPUS), st.sampled_from(PURPOSES))
def test_versions_beyond_the_facts_are_unknown(name: str, major: int, gpu: object, purpose: str) -> None:
    stack = Stack(pins={name: f"{major}.1"}, purpose=purpose, gpus=(gpu,), driver="470.57.02")
    assert {f.severity for f in evaluate(FACTS, stack) if f.rule != "gpu-driver"} == {"unknown"}


@pytest.mark.slow
@QUICK
@given(stacks())
def test_import_asks_nothing_of_gpu_and_driver(stack: Stack) -> None:
    found = evaluate(FACTS, replace(stack, purpose="import"))
    assert not [f for f in found if any(s.startswith(("gpu=", "driver=")) for s in f.subjects)]


@QUICK
@given(st.text(max_size=12), st.sampled_from(_VERSIONED))
def test_any_text_is_survived(text: str, name: str) -> None:
    evaluate(FACTS, Stack(pins={name: text, "base": text, "distro": text}, driver=text, gpus=(_GPUS[0],)))
