"""Verdicts on claims, whether a claim's hardware is that of a measurement, and the claims of the bundled recipes."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from reprokit.compat.facts import bundled
from reprokit.recipe.find import load_recipe, recipe_names
from reprokit.recipe.model import Claim, Recipe
from reprokit.results.claims import JudgedClaim, as_lines, as_table, judge, other_hardware
from reprokit.results.likeness import groups
from tests.support.records import RECORD

OURS = (1.0, 1.02, 0.98, 1.01, 0.99)
THEIRS = (2.0, 2.02, 1.98, 2.01, 1.99)
RUN = {"recipe": "x", "metric": "time", "samples": OURS, "gpu": "2x NVIDIA H200", "driver": "570.1"}
CLAIM = {"metric": "time", "unit": "ms", "hardware": "NVIDIA H200", "gpu": "H200", "where": "Table 1"}
# How many times faster `ours` is than a baseline.
SPEED_UP = {"value": 2, "unit": "x", "params": {"impl": "ours"}, "baseline": {"metric": "time"}, "over": "best"}
OVER_TORCH = {**SPEED_UP, "baseline": {"params": {"impl": "torch"}}, "over": "case"}
MINE: dict[str, Any] = {"params": {"impl": "ours"}}
TORCH: dict[str, Any] = {"params": {"impl": "torch"}, "samples": THEIRS}
NO_BASELINE = "its baseline was not measured for the same case"
NO_RATIO = "no ratio: a number is 0 or less, or too large"


def recipe(claim: dict, benchmark: dict, **changes: Any) -> Recipe:
    paper = {"title": "T", "venue": "V", "year": 2020, "licence": "none"}
    common = {"name": "x", "paper": paper, "variants": {"cpu": {"base": "debian:12"}}}
    return Recipe.model_validate(
        {**common, "benchmarks": {"b": {"command": "c", **benchmark}}, "claims": [claim]} | changes
    )


def judged(claim: dict, *changes: dict) -> JudgedClaim:
    """The verdict on a claim about the metric `time`, by these records."""
    variants = {"cpu": {"base": "debian:12"}, "cuda": {"base": "debian:12", "requires": {"gpu": "required"}}}
    benchmark = {"gpu": True, "parse": {"format": "records", "metrics": ["time"]}}
    records = [replace(RECORD, **{**RUN, **each}) for each in changes]
    (verdict,) = judge(recipe({**CLAIM, **claim}, benchmark, variants=variants), groups(records), bundled())
    return verdict


def short(claim: dict, *changes: dict) -> tuple[str, float | None, str]:
    verdict = judged(claim, *changes)
    return verdict.verdict, verdict.measured, verdict.reason


def test_a_number_is_reproduced_within_the_tolerance_or_better():
    assert short({"value": 1.05}, {}) == ("reproduced", 1.0, "")
    assert short({"value": 0.5}, {}) == ("not reproduced", 1.0, "worse by more than 10%")
    assert short({"value": 2.0}, {}) == ("reproduced", 1.0, "better than claimed")
    assert short({"value": 0.8, "tolerance": 0.3}, {}) == ("reproduced", 1.0, "")
    assert short({"value": 2, "better": "higher"}, {}) == ("not reproduced", 1.0, "worse by more than 10%")
    assert short({"value": 0.5, "better": "higher"}, {}) == ("reproduced", 1.0, "better than claimed")
    exact = judged({"value": 1.05}, {})
    assert exact.ratio == 1 / 1.05 and exact.low <= exact.ratio <= exact.high


def test_a_speed_up_is_over_the_fastest_baseline_of_the_same_case_and_machine():
    case = {"impl": "torch", "n": 8}
    records = (
        {"params": {"impl": "ours", "n": 8}},
        {"params": case, "samples": THEIRS},
        {"params": {"impl": "naive", "n": 8}, "samples": (9.0, 9.1)},
        {"params": {"impl": "ours-packed", "n": 8}, "samples": (0.1, 0.1)},
        {"params": case, "samples": (0.5, 0.5), "cpu": "another"},
        {"params": {"impl": "torch", "n": 9}, "samples": (50.0, 50.0)},
    )
    verdict = judged(SPEED_UP, *records)
    assert (verdict.verdict, verdict.measured) == ("reproduced", 2.0) and verdict.low < 1 < verdict.high
    assert judged({**SPEED_UP, "value": 4}, *records).verdict == "not reproduced"
    packed = {**SPEED_UP, "value": 0.1, "baseline": {"params": {"impl": "ours-packed"}}}
    assert judged(packed, *records).verdict == "reproduced"  # a variation that the claim names
    assert short(SPEED_UP, records[0]) == ("not comparable", None, NO_BASELINE)


@pytest.mark.parametrize("change", [{"unit": "us"}, {"commit": "a" * 40}, {"command": "c 2"}], ids=str)
def test_an_implementation_is_not_its_own_baseline(change):
    older = {**MINE, "samples": THEIRS, "time": "2026-01-01T00:00:00Z", **change}
    assert short(SPEED_UP, MINE, older) == ("not comparable", None, NO_BASELINE)


def test_times_are_converted_and_other_units_are_not_comparable():
    seconds = {"unit": "s", "samples": tuple(sample / 1000 for sample in OURS)}
    assert judged({"value": 1}, seconds).ratio == 1.0
    assert judged({"value": 0.001}, seconds).verdict == "not reproduced"
    assert short({"value": 1}, {"unit": "MB"}) == ("not comparable", None, "measured in MB, claimed in ms")


def test_a_recipe_cannot_claim_in_another_unit_than_its_benchmark_prints():
    parse = {"values": [{"pattern": "^(?P<value>.*)", "metric": "t", "unit": "ms"}]}
    claim = {"metric": "t", "value": 1, "hardware": "h", "where": "w"}
    refused = "the claim about t is in '{}', but b measures it in 'ms'"
    recipe({**claim, "unit": "s"}, {"parse": parse})
    recipe({**claim, "unit": "x", "baseline": {"value": 1, "unit": "s"}}, {"parse": parse})
    for change, error in [
        ({"unit": "MB"}, refused.format("MB")),
        ({"unit": "x", "baseline": {"value": 1, "unit": "MB"}}, refused.format("MB")),
        ({"unit": "x", "baseline": {"value": 1}}, refused.format("")),
        ({"unit": "x", "baseline": {"metric": "u", "unit": "s"}}, "that of its `value`"),
    ]:
        with pytest.raises(ValidationError, match=error):
            recipe({**claim, **change}, {"parse": parse})


def test_the_baseline_of_a_case_is_not_that_of_an_easier_one():
    paper = load_recipe("atoffer")
    (claim,) = (each for each in paper.claims if each.metric == "mha.atoffer" and each.gpu == "RTX 4090")
    spec = {"recipe": "atoffer", "unit": "ms", "gpu": "NVIDIA GeForce RTX 4090", "driver": "550"}
    times = {("native", 64): 0.1, ("native", 1024): 2217.0, ("atoffer", 64): 0.1, ("atoffer", 1024): 1000.0}
    records = [
        replace(RECORD, **spec, metric=f"mha.{name}", samples=(time,), params={**claim.params, "seq_len": length})
        for (name, length), time in times.items()
    ]
    verdict = next(each for each in judge(paper, groups(records), bundled()) if each.claim is claim)
    assert (verdict.verdict, verdict.ratio) == ("reproduced", 1.0)


@pytest.mark.parametrize("over", ["mean", "best"])
def test_cases_of_other_machines_or_variants_are_not_mixed(over):
    first = {"time": "2026-01-01T00:00:00Z", "samples": (0.01, 0.01)}
    for change in ({"cpu": "Xeon"}, {"variant": "cuda"}, {"gpu": "NVIDIA H200"}):
        reason = f"only the latest of 2 sets of unlike records, which differ in {', '.join(change)}"
        cases = {"params": {"n": 1}}, {"params": {"n": 2}}
        assert short({"value": 1, "over": over}, {**first, **change}, *cases) == ("reproduced", 1.0, reason)


@pytest.mark.parametrize(
    "change",
    [{"variant": "cuda"}, {"image_digest": "sha256:3d"}, {"driver": "470"}, {"files": {"g": "1"}}, {"threads": 9}],
)
def test_a_baseline_of_other_conditions_is_not_comparable(change):
    verdict, _, reason = short(OVER_TORCH, MINE, {**TORCH, **change})
    assert verdict == "not comparable" and reason.startswith("its baseline was measured apart: differs in")
    assert next(iter(change)) in reason
    # A like one counts, even if it is older.
    assert judged(OVER_TORCH, MINE, TORCH, {**TORCH, **change, "time": "2027-01-01T00:00:00Z"}).ratio == 1.0


def test_a_baseline_of_another_commit_or_checkout_is_in_doubt():
    reason = "measured in a checkout with changes; its records differ in commit, dirty"
    assert short(OVER_TORCH, MINE, {**TORCH, "commit": "a" * 40, "dirty": True}) == ("reproduced", 2.0, reason)


def test_the_baseline_can_be_another_variant_on_the_same_machine():
    claim = {"value": 2000, "unit": "x", "baseline": {"variant": "cpu"}}
    on_cpu = {"variant": "cpu", "gpu": "", "driver": "", "image_digest": "sha256:3d", "unit": "s", "samples": THEIRS}
    assert judged(claim, {"variant": "cuda"}, on_cpu).ratio == 1.0
    for change in ({"cpu": "Xeon"}, {"variant": "other"}, {"gpu": "NVIDIA A100"}):
        assert judged(claim, {"variant": "cuda"}, {**on_cpu, **change}).verdict == "not comparable"


def test_a_number_of_the_paper_can_be_the_baseline():
    verdict = judged({"value": 3, "baseline": {"value": 3.0, "unit": "ms"}}, {"samples": (0.9, 1.0, 1.1) * 3})
    assert (verdict.verdict, verdict.measured) == ("reproduced", 3.0) and 0.9 < verdict.low < 1 < verdict.high < 1.2
    assert judged({"value": 3, "baseline": {"value": 0.003, "unit": "s"}}, {}).measured == pytest.approx(3)
    other = {"value": 3, "baseline": {"value": 3, "unit": "GB"}}
    assert short(other, {}) == ("not comparable", None, "measured in ms, its baseline is in GB")
    ratio = {"value": 3, "baseline": {"value": 3}}
    assert judged(ratio, {"unit": ""}).measured == pytest.approx(3)
    assert judged(ratio, {}).reason == "measured in ms, its baseline is in no unit"


def test_other_hardware_and_other_cases_are_not_comparable():
    for gpu, change, reason in [
        ("H200", {"gpu": "NVIDIA A100-SXM4-40GB"}, "measured on NVIDIA A100-SXM4-40GB, claimed for NVIDIA H200"),
        ("H200", {"gpu": ""}, "measured on a CPU (EPYC), claimed for NVIDIA H200"),
        ("any", {"gpu": ""}, "measured on a CPU (EPYC), claimed for NVIDIA H200"),
        ("none", {}, "measured on a GPU (2x NVIDIA H200), claimed for NVIDIA H200"),
    ]:
        verdict = judged({"value": 1, "gpu": gpu}, change)
        assert (verdict.verdict, verdict.measured, verdict.reason.partition(";")[0]) == ("not comparable", 1.0, reason)
    both = {"params": {"batch": 8}}, {"params": {"batch": 9}}
    reason = "measured for other cases, not batch 16"
    assert short({"value": 1, "params": {"batch": 16}}, both[0]) == ("not comparable", None, reason)
    reason = "2 cases were measured, and the claim is about one: `params` must name it"
    assert short({"value": 1}, *both) == ("not comparable", None, reason)
    assert judged({"value": 1, "over": "mean"}, *both).measured == 1.0


@pytest.mark.parametrize(
    ("claim", "sample", "reason"),
    [
        ({"value": 0}, 0.0, NO_RATIO),
        ({"value": 1}, 0.0, NO_RATIO),
        ({"value": 1, "baseline": {"value": 2, "unit": "ms"}}, 0.0, NO_RATIO),
        ({"value": 1, "over": "mean"}, 0.0, "no geometric mean: a number is 0 or less"),
        ({"value": 1e-300}, 1e150, NO_RATIO),
    ],
)
def test_zero_has_no_ratio(claim, sample, reason):
    verdict = judged(claim, {"samples": (sample, sample)})
    assert (verdict.verdict, verdict.reason, verdict.ratio) == ("not comparable", reason, None)
    json.dumps(verdict.to_json(), allow_nan=False)


def test_what_was_not_measured_names_the_command():
    verdict = judged({"value": 1})
    assert (verdict.verdict, verdict.command) == ("not measured", "reprokit bench x:cuda b --repeat 10")
    words = judged({"value": 1, "metric": "speed in words"})
    assert (words.reason, words.command) == ("no benchmark of the recipe measures it", "")
    assert verdict.command in as_table([verdict], "claims").rows[0]
    assert as_lines([verdict]) == [
        ("not measured", ["x: time", "paper 1 ms (Table 1; NVIDIA H200)", verdict.command]),
    ]


def test_doubts_stand_beside_the_verdict():
    assert judged({"value": 1}, {"warnings": ("heat",)}).reason == "in doubt: heat"
    on_cpu = {"gpu": "", "driver": "", "cpu": "Intel Xeon E5-2680"}
    unnamed = "the recipe does not say on which GPU it was measured"
    assert judged({"value": 1, "gpu": ""}, {}).reason == unnamed
    assert judged({"value": 1, "gpu": ""}, on_cpu).reason == unnamed
    assert judged({"value": 1, "gpu": "", "cpu": "Xeon E5-2680"}, on_cpu).reason == ""
    ratio = {"value": 2, "gpu": "none", "params": {"impl": "ours"}, "baseline": {"params": {"impl": "torch"}}}
    reason = "the recipe does not say on which CPU it was measured"
    assert short(ratio, {**MINE, "gpu": ""}, {**TORCH, "gpu": ""}) == ("reproduced", 2.0, reason)


@pytest.mark.parametrize("name", recipe_names())
def test_bundled_claims_are_machine_readable(name):
    paper = load_recipe(name)
    assert paper.claims or name == "operator-fusion", "a paper claims something"
    assert all(claim.gpu for claim in paper.claims)
    for each in judge(paper, [], bundled()):
        # Either a benchmark measures it, or the metric is words.
        assert bool(each.command) != (" " in each.claim.metric), each.claim.metric


@pytest.mark.parametrize("over", ["mean", "best", "case"])
def test_cases_without_a_baseline_are_counted(over):
    cases = [{"params": {"impl": "ours", "n": n}} for n in range(3)]
    reason = f"2 of 3 cases do not count: {NO_BASELINE}"
    torch = {**TORCH, "params": {"impl": "torch", "n": 1}}
    assert short({**OVER_TORCH, "over": over}, *cases, torch) == ("reproduced", 2.0, reason)


@pytest.mark.parametrize("over", ["mean", "best"])
def test_a_partly_measured_matrix_is_named(over):
    matrix = {"N": [1, 2.0, 4], "fused": [True, False]}
    claim = {**CLAIM, "value": 1, "over": over, "params": {"fused": True}, "gpu": "any"}
    paper = recipe(claim, {"matrix": matrix, "parse": {"format": "records", "metrics": ["time"]}})
    cases = [{"N": n, "fused": "true", "case": "a"} for n in (1, 2, 4)]
    records = [replace(RECORD, **RUN, benchmark="b", params=case, variables={}) for case in cases]
    for count, reason in ((3, ""), (2, "1 of 3 combinations of the matrix of b were not measured")):
        (verdict,) = judge(paper, groups(records[:count]), bundled())
        assert (verdict.verdict, verdict.reason) == ("reproduced", reason)


XEON = "Intel(R) Xeon(R) CPU E5-2680 v4 @ 2.40GHz"


def other(claim: dict, **identity: str) -> str:
    about = {"metric": "t", "value": 1, "hardware": "the paper's", "where": "w"}
    return other_hardware(Claim.model_validate({**about, **claim}), {"gpu": "", "cpu": XEON, **identity}, bundled())


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
    name = f"a GPU ({measured})" if claimed == "none" else measured
    assert other({"gpu": claimed}, gpu=measured) == ("" if fits else f"measured on {name}, claimed for the paper's")


def test_a_number_of_a_cpu_is_comparable_on_that_cpu_alone():
    on_cpu = {"gpu": "none"}
    apart = f"measured on {XEON}, claimed for the paper's"
    assert other(on_cpu) == other({**on_cpu, "baseline": {"value": 2, "unit": "ms"}}) == apart
    assert other({**on_cpu, "cpu": "xeon E5-2680"}) == ""
    assert other({**on_cpu, "cpu": "Xeon E5-2680"}, cpu="Apple M1") == "measured on Apple M1, claimed for the paper's"
    assert other({**on_cpu, "baseline": {"params": {"impl": "a"}}}) == ""
    assert other({"gpu": "T4", "cpu": "EPYC"}, gpu="Tesla T4")
