"""From a recipe's variant to findings, and the machine it meets."""

from __future__ import annotations

import pytest

from reprokit.compat.evaluate import evaluate
from reprokit.compat.facts import bundled
from reprokit.compat.gpu import parse_gpu
from reprokit.compat.model import KnownHost
from reprokit.compat.stack import stack_of
from reprokit.recipe.model import Variant


def variant(**fields: object) -> Variant:
    return Variant.model_validate({"base": "debian:12", **fields})


GPU = {"gpu": "required", "compute_capability": ["8.0", "8.6"]}


def found(stack: object) -> dict[str, str]:
    return {f.rule: f.severity for f in evaluate(bundled(), stack) if f.severity != "info"}


def test_without_a_gpu_the_declared_capabilities_are_checked() -> None:
    # The README asks for CUDA 10.2, the kernels are for sm_80.
    stack = stack_of(variant(pins={"cuda": "10.2"}, requires=GPU, base="ubuntu:18.04"))
    assert [g.label for g in stack.gpus] == ["gpu=capability 8.0 (sm_80)", "gpu=capability 8.6 (sm_86)"]
    assert found(stack)["cuda-gpu"] == "error"


def test_a_named_gpu_takes_their_place_and_must_not_be_older() -> None:
    gpus = (parse_gpu(bundled(), "V100"),)
    assert found(stack_of(variant(requires=GPU), gpus)) == {"recipe-gpu": "error"}
    assert found(stack_of(variant(requires=GPU), (parse_gpu(bundled(), "H100"),))) == {}


def test_no_gpu_leaves_gpu_rules_out() -> None:
    pinned = variant(pins={"cuda": "11.8", "torch": "1.8.0+cu111"}, requires={**GPU, "driver": "520.61.05"})
    stack = stack_of(pinned, (), "418.39", None, no_gpu=True)
    assert found(stack) == {"torch-cuda": "warning"}


def test_a_cpu_variant_asks_nothing_of_the_gpu() -> None:
    stack = stack_of(variant(pins={"torch": "2.13.0+cpu"}, requires={"gpu": "none"}), (parse_gpu(bundled(), "K80"),))
    assert found(stack) == {}


def test_a_cpu_build_where_a_gpu_is_required() -> None:
    assert found(stack_of(variant(pins={"torch": "2.13.0+cpu"}, requires=GPU))) == {"torch-cpu-build": "error"}


@pytest.mark.parametrize(
    ("driver", "severity"), [("470.57.02", {"recipe-driver": "error"}), ("520.61.05", {}), (None, {})]
)
def test_the_lowest_driver_of_a_recipe(driver: str | None, severity: dict[str, str]) -> None:
    assert found(stack_of(variant(requires={**GPU, "driver": "520.61.05"}), (), driver)) == severity


def test_memory_and_disk_are_held_against_the_host() -> None:
    needy = variant(requires={"memory": "64GiB", "disk": "50GiB"})
    assert found(stack_of(needy, (), None, KnownHost(32 << 30, 20 << 30))) == {"memory": "error", "disk": "error"}
    assert found(stack_of(needy, (), None, KnownHost(64 << 30, 50 << 30))) == {}
    assert found(stack_of(needy, (), None, KnownHost(None, None))) == {}
    (memory, _) = evaluate(bundled(), stack_of(needy, (), None, KnownHost(32 << 30, 20 << 30)))
    assert memory.subjects == ("requires.memory=64.0 GiB", "host.memory=32.0 GiB")


def test_apis_and_standards_of_a_recipe() -> None:
    needs = variant(pins={"dgl": "1.1.2"}, needs_apis=["dgl:RedditDataset.num_labels"])
    assert found(stack_of(needs)) == {"needs-api": "error"}
    for standard, severity in (("14", {"cutlass-cxx": "error"}), ("17", {})):
        assert found(stack_of(variant(pins={"cutlass": "3.5"}, cxx_standard=standard))) == severity
    for standard, severity in (("14", "error"), ("17", "warning"), ("20", None)):
        assert found(stack_of(variant(pins={"torch": "2.13.0"}, cxx_standard=standard))).get("torch-cxx") == severity
    for torch, severity in (("1.5.0", "error"), ("1.4.0", None)):
        assert found(stack_of(variant(pins={"torch": torch}, cxx_standard="11"))).get("torch-cxx") == severity
    for cuda, standard, severity in (("10.2", "17", "error"), ("10.2", "14", None), ("11.0", "17", None)):
        assert found(stack_of(variant(pins={"cuda": cuda}, cxx_standard=standard))).get("cuda-cxx") == severity


def test_old_projects_with_a_new_cmake() -> None:
    source = {
        "name": "taco",
        "git": "https://github.com/tensor-compiler/taco",
        "commit": "0" * 40,
        "path": "/src/taco",
        "submodules": True,
    }
    for cmake, severity in (("4.0", {"cmake-4": "error", "cmake-distro": "warning"}), ("3.25", {})):
        assert found(stack_of(variant(pins={"cmake": cmake}, sources=[source]))) == severity


def test_wheels_must_be_exact_in_a_recipe() -> None:
    assert found(stack_of(variant(pins={"torch": "2.1"}, purpose="import"))) == {"unpinned": "warning"}
    assert found(stack_of(variant(pins={"torch": "2.1.0"}, purpose="import"))) == {}


def test_submodules_may_come_with_git_or_as_sources_of_their_own() -> None:
    tree = {"name": "bt", "git": "https://github.com/bytedance/ByteTransformer", "commit": "0" * 40, "path": "/src/bt"}
    part = {**tree, "name": "cutlass", "git": "https://github.com/NVIDIA/cutlass", "path": "/src/bt/3rdparty/cutlass"}
    assert found(stack_of(variant(sources=[tree]))) == {"submodules": "warning"}
    assert found(stack_of(variant(sources=[{**tree, "submodules": True}]))) == {}
    assert found(stack_of(variant(sources=[tree, part]))) == {}
