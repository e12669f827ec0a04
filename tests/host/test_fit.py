"""Whether a machine can run an image or a recipe."""

from __future__ import annotations

from typing import Any

import pytest

from reprokit.compat.model import KnownHost
from reprokit.errors import EngineError, WorkFailed
from reprokit.host.fit import ImageNeeds, host_errors_of, image_findings, in_words, recipe_findings, require_image
from reprokit.host.gpu import Gpu
from reprokit.recipe.find import Target
from reprokit.recipe.load import load_text
from reprokit.recipe.model import Variant
from tests.support.builds import RECIPE, target_of

GIB = 1 << 30
NEEDS = ImageNeeds(min_driver="450.80.02", compute_capabilities=("7.0", "8.0"))


def found(needs: ImageNeeds, *gpus: Gpu) -> list[tuple[str, str]]:
    return [(finding.severity, in_words(finding)) for finding in image_findings(needs, gpus)]


def test_driver_and_capability_are_compared_with_the_image():
    assert found(NEEDS, Gpu("A100", "450.80.02", "8.0")) == []
    ((severity, words),) = found(NEEDS, Gpu("RTX 3090", "535.1", "8.6"))
    assert severity == "warning" and "8.6" in words and "7.0, 8.0" in words
    ((severity, words),) = found(NEEDS, Gpu("A100", "450.51", "8.0"))
    assert severity == "error" and "driver=450.51" in words and "450.80.02" in words


@pytest.mark.parametrize("needs", [ImageNeeds(), ImageNeeds(min_driver="?")])
def test_nothing_is_found_where_nothing_is_known(needs):
    assert found(needs, Gpu("A100", "450.51.05", "8.0")) == found(needs, Gpu("A100", "[N/A]", "")) == []
    assert found(NEEDS) == []


def test_the_finding_on_the_cuda_pin_replaces_that_on_the_driver_number():
    needs = ImageNeeds({"cuda": "12.1"}, "525.60.13")
    ((severity, words),) = found(needs, Gpu("A100", "450.80.02", "8.0"))
    assert severity == "error" and words.startswith("cuda=12.1 with driver=450.80.02: ")


def test_an_error_is_raised_unless_forced(reported: list[str]):
    gpus = [Gpu("A100", "450.51", "8.0")]
    with pytest.raises(WorkFailed, match=r"this host cannot run x:1: requires\.driver") as error:
        require_image("x:1", NEEDS, gpus, False)
    assert "--force" in error.value.hint and reported == []
    require_image("x:1", NEEDS, gpus, True)
    assert reported[0].startswith("x:1: error: ")


def variant(**requires: Any) -> Variant:
    return Variant.model_validate({"base": "debian:12", "requires": requires})


REQUIRED = variant(gpu="required", memory="8GiB", disk="24GiB")


@pytest.mark.parametrize(
    ("of", "has_gpu", "memory", "disk", "words"),
    [
        (REQUIRED, True, 8 * GIB, 24 * GIB, ""),
        (REQUIRED, True, None, None, ""),
        (REQUIRED, False, 8 * GIB, 24 * GIB, "this machine has no GPU"),
        (REQUIRED, True, 4 * GIB, 24 * GIB, "requires.memory=8.0 GiB with host.memory=4.0 GiB"),
        (REQUIRED, True, 8 * GIB, 1 * GIB, "requires.disk=24.0 GiB with host.disk_free=1.0 GiB"),
        (variant(gpu="optional"), False, 1, 1, ""),
    ],
)
def test_a_host_lacks_what_is_required(of, has_gpu, memory, disk, words):
    errors = [in_words(f) for f in recipe_findings(of, has_gpu, [], memory, disk) if f.severity == "error"]
    assert (words in errors[0] and len(errors) == 1) if words else errors == []


def test_a_gpu_that_is_older_than_the_recipe_is_meant_for():
    gpus = [Gpu("Tesla P100-PCIE-16GB", "535.54.03", "6.0")]
    needs = variant(gpu="required", compute_capability=["8.0"])
    assert any("8.0" in in_words(f) for f in recipe_findings(needs, True, gpus, None, None) if f.severity == "error")
    needs = variant(gpu="optional", compute_capability=["8.0"])
    assert recipe_findings(needs, True, gpus, None, None) == []
    # The recipe's own capabilities are no GPUs of the machine.
    stack = {"base": "debian:12", "pins": {"cuda": "10.2"}}
    needs = Variant.model_validate({**stack, "requires": {"gpu": "required", "compute_capability": ["8.6"]}})
    assert recipe_findings(needs, True, [], None, None) == []


def test_a_machine_that_is_too_small_stops_build_and_run_with_what_it_lacks(reported: list[str]):
    text = RECIPE.format(name="large", base="debian:12").replace("driver:", "memory: 8GiB, disk: 30GiB, driver:")
    large = Target(load_text(text, "large.yaml", "large"), "v", target_of("x").path)
    small = KnownHost(4 << 30, 20 << 30)
    with pytest.raises(EngineError) as error:
        host_errors_of(large, small, False, "or --force")
    assert error.value.exit_code == 3 and error.value.hint.endswith("or --force")
    assert "requires.memory=8.0 GiB with host.memory=4.0 GiB" in error.value.message
    assert "requires.disk=30.0 GiB with host.disk_free=20.0 GiB" in error.value.message
    assert len(host_errors_of(large, small, True, "")) == len(reported) == 2
    for enough in (KnownHost(8 << 30, 30 << 30), KnownHost(None, None)):
        assert host_errors_of(large, enough, False, "") == []
