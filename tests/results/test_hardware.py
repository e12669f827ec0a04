"""Whether a claim's hardware is that of a measurement."""

from __future__ import annotations

import pytest

from reprokit.compat.facts import bundled
from reprokit.recipe.claim import Claim
from reprokit.results.hardware import other_hardware

XEON = "Intel(R) Xeon(R) CPU E5-2680 v4 @ 2.40GHz"
CLAIM = {"metric": "t", "value": 1, "hardware": "the paper's", "where": "w"}


def other(claim: dict, **identity: str) -> str:
    return other_hardware(Claim.model_validate({**CLAIM, **claim}), {"gpu": "", "cpu": XEON, **identity}, bundled())


@pytest.mark.parametrize(
    ("claimed", "measured", "fits"),
    [
        ("A100", "NVIDIA A100-SXM4-40GB", True), ("A100", "2x NVIDIA A100-SXM4-40GB", True),
        ("8x A100", "8x NVIDIA A100-SXM4-80GB", True), ("8x A100", "NVIDIA A100-SXM4-80GB", False),
        ("2x A100", "NVIDIA A100-SXM4-40GB, NVIDIA A100-SXM4-80GB", True), ("A100", "NVIDIA A10", False),
        ("A100", "NVIDIA A100-SXM4-40GB, Tesla T4", False), ("any", "Tesla T4", True), ("none", "Tesla T4", False),
        ("H9000", "H9000", True), ("A100", "NVIDIA A100-SXM4-40GB MIG 1g.5gb", False),
        ("A100 MIG 1g.5gb", "NVIDIA A100-SXM4-40GB MIG 1g.5gb", True), ("A100", "unknown GPU", False),
        ("A100", "\n", False), ("9" * 5000 + "x A100", "NVIDIA A100-SXM4-40GB", False),
    ],
)  # fmt: skip
def test_all_gpus_are_of_the_claimed_kind_and_enough(claimed, measured, fits):
    assert other({"gpu": claimed}, gpu=measured) == (
        ""
        if fits
        else f"measured on {f'a GPU ({measured})' if claimed == 'none' else measured}, claimed for the paper's"
    )


def test_a_number_of_a_cpu_is_comparable_on_that_cpu_alone():
    on_cpu = {"gpu": "none"}
    assert other(on_cpu) == f"measured on {XEON}, claimed for the paper's"
    assert other({**on_cpu, "baseline": {"value": 2, "unit": "ms"}})
    assert other({**on_cpu, "cpu": "xeon E5-2680"}) == ""
    assert other({**on_cpu, "cpu": "Xeon E5-2680"}, cpu="Apple M1") == "measured on Apple M1, claimed for the paper's"
    assert other({**on_cpu, "baseline": {"params": {"impl": "a"}}}) == ""
    assert other({"gpu": "T4", "cpu": "EPYC"}, gpu="Tesla T4")
