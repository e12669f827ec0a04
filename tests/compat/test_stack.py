"""From a recipe's variant to findings, and the machine it meets."""

from __future__ import annotations

import pytest

from reprokit.compat.evaluate import evaluate
from reprokit.compat.facts import bundled
from reprokit.compat.gpu import parse_gpu
from reprokit.compat.model import KnownHost
from reprokit.compat.stack import stack_of
from reprokit.recipe.model import Variant
from tests.support.stacks import severities

GPU = {"gpu": "required", "compute_capability": ["8.0", "8.6"]}
NEEDY = {"memory": "64GiB", "disk": "50GiB"}
CUDA_111 = {"cuda": "11.8", "torch": "1.8.0+cu111"}
CPU_TORCH = {"torch": "2.13.0+cpu"}
SOURCE = {"name": "bt", "git": "https://github.com/bytedance/ByteTransformer", "commit": "0" * 40, "path": "/src/bt"}
PART = {**SOURCE, "name": "cutlass", "git": "https://github.com/NVIDIA/cutlass", "path": "/src/bt/3rdparty/cutlass"}
TACO = {**SOURCE, "name": "taco", "git": "https://github.com/tensor-compiler/taco", "submodules": True}


def variant(**fields: object) -> Variant:
    return Variant.model_validate({"base": "debian:12", **fields})


def test_without_a_gpu_the_declared_capabilities_are_checked() -> None:
    # The README asks for CUDA 10.2, the kernels are for sm_80.
    stack = stack_of(variant(pins={"cuda": "10.2"}, requires=GPU, base="ubuntu:18.04"))
    assert [g.label for g in stack.gpus] == ["gpu=capability 8.0 (sm_80)", "gpu=capability 8.6 (sm_86)"]
    assert severities(evaluate(bundled(), stack))["cuda-gpu"] == "error"


@pytest.mark.parametrize(
    ("fields", "gpu", "driver", "memory_and_disk", "expected"),
    [
        # A named GPU takes the place of the declared ones, and must not be older.
        ({"requires": GPU}, "V100", None, None, "recipe-gpu error"),
        ({"requires": GPU}, "H100", None, None, ""),
        ({"pins": CPU_TORCH, "requires": {"gpu": "none"}}, "K80", None, None, ""),
        ({"pins": CPU_TORCH, "requires": GPU}, "", None, None, "torch-cpu-build error"),
        ({"requires": {**GPU, "driver": "520.61.05"}}, "", "470.57.02", None, "recipe-driver error"),
        ({"requires": {**GPU, "driver": "520.61.05"}}, "", "520.61.05", None, ""),
        ({"requires": {**GPU, "driver": "520.61.05"}}, "", None, None, ""),
        ({"requires": NEEDY}, "", None, (32, 20), "memory error, disk error"),
        ({"requires": NEEDY}, "", None, (64, 50), ""),
        ({"requires": NEEDY}, "", None, (None, None), ""),
        # What code needs
        ({"pins": {"dgl": "1.1.2"}, "needs_apis": ["dgl:RedditDataset.num_labels"]}, "", None, None, "needs-api error"),
        ({"pins": {"cutlass": "3.5"}, "cxx_standard": "14"}, "", None, None, "cutlass-cxx error"),
        ({"pins": {"cutlass": "3.5"}, "cxx_standard": "17"}, "", None, None, ""),
        ({"pins": {"cmake": "4.0"}, "sources": [TACO]}, "", None, None, "cmake-4 error, cmake-distro warning"),
        ({"pins": {"cmake": "3.25"}, "sources": [TACO]}, "", None, None, ""),
        # Wheels must be exact in a recipe.
        ({"pins": {"torch": "2.1"}, "purpose": "import"}, "", None, None, "unpinned warning"),
        ({"pins": {"torch": "2.1.0"}, "purpose": "import"}, "", None, None, ""),
        # Submodules come with git or as sources of their own.
        ({"sources": [SOURCE]}, "", None, None, "submodules warning"),
        ({"sources": [{**SOURCE, "submodules": True}]}, "", None, None, ""),
        ({"sources": [SOURCE, PART]}, "", None, None, ""),
    ],
)
def test_findings_on_a_variant(
    fields: dict[str, object],
    gpu: str,
    driver: str | None,
    memory_and_disk: tuple[int | None, int | None] | None,
    expected: str,
) -> None:
    host = KnownHost(*(size and size << 30 for size in memory_and_disk)) if memory_and_disk else None
    stack = stack_of(variant(**fields), (parse_gpu(bundled(), gpu),) if gpu else (), driver, host)
    assert severities(evaluate(bundled(), stack)) == dict(each.split() for each in expected.split(", ") if each)


def test_no_gpu_skips_the_rules_about_gpus() -> None:
    pinned = variant(pins=CUDA_111, requires={**GPU, "driver": "520.61.05"})
    stack = stack_of(pinned, (), "418.39", None, no_gpu=True)
    assert severities(evaluate(bundled(), stack)) == {"torch-cuda": "warning"}


def test_the_subjects_of_memory_are_the_requirement_and_the_host() -> None:
    (memory, _) = evaluate(bundled(), stack_of(variant(requires=NEEDY), (), None, KnownHost(32 << 30, 20 << 30)))
    assert memory.subjects == ("requires.memory=64.0 GiB", "host.memory=32.0 GiB")


@pytest.mark.parametrize(
    ("pin", "standard", "severity"),
    [
        ("torch=2.13.0", "14", "error"),
        ("torch=2.13.0", "17", "warning"),
        ("torch=2.13.0", "20", None),
        ("torch=1.5.0", "11", "error"),
        ("torch=1.4.0", "11", None),
        ("cuda=10.2", "17", "error"),
        ("cuda=10.2", "14", None),
        ("cuda=11.0", "17", None),
    ],
)
def test_the_standard_of_cxx_that_a_compiler_takes(pin: str, standard: str, severity: str | None) -> None:
    name, _, version = pin.partition("=")
    stack = stack_of(variant(pins={name: version}, cxx_standard=standard))
    assert severities(evaluate(bundled(), stack)).get(f"{name}-cxx") == severity
