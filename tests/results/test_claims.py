"""Verdicts on claims, and the claims of the bundled recipes."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from pydantic import ValidationError

from reprokit.compat.facts import bundled
from reprokit.recipe.find import load_recipe, recipe_names
from reprokit.recipe.model import Recipe
from reprokit.results.claims import as_lines, as_table, judge
from reprokit.results.likeness import groups
from tests.support.records import RECORD

OURS = (1.0, 1.02, 0.98, 1.01, 0.99)
THEIRS = (2.0, 2.02, 1.98, 2.01, 1.99)
BASE = {"base": "debian:12"}
H200 = {"gpu": "2x NVIDIA H200", "driver": "570.1"}


@pytest.fixture
def judged(record):
    """The verdict on a claim about the metric `time`, by these records."""

    def run(claim: dict, *changes: dict):
        claim = {"metric": "time", "unit": "ms", "hardware": "NVIDIA H200", "gpu": "H200", "where": "Table 1", **claim}
        recipe = Recipe.model_validate(
            {
                "name": "x",
                "paper": {"title": "T", "venue": "V", "year": 2020, "licence": "none"},
                "variants": {
                    "cpu": {"base": "debian:12"},
                    "cuda": {"base": "debian:12", "requires": {"gpu": "required"}},
                },
                "benchmarks": {"b": {"command": "c", "gpu": True, "parse": {"format": "records", "metrics": ["time"]}}},
                "claims": [claim],
            }
        )
        records = [record(**{"recipe": "x", "metric": "time", "samples": OURS, **H200, **each}) for each in changes]
        (found,) = judge(recipe, groups(records), bundled())
        return found

    return run


@pytest.mark.parametrize(
    ("value", "verdict", "reason"),
    [(1.05, "reproduced", ""), (0.5, "not reproduced", "worse by"), (2.0, "reproduced", "better than claimed")],
)
def test_a_time_is_reproduced_within_the_tolerance_or_below(judged, value, verdict, reason):
    found = judged({"value": value}, {})
    assert found.verdict == verdict and found.reason.startswith(reason)
    assert found.ratio == 1 / value and found.low <= found.ratio <= found.high
    assert judged({"value": 0.8, "tolerance": 0.3}, {}).verdict == "reproduced"


def test_a_throughput_is_better_if_it_is_higher(judged):
    assert judged({"value": 2, "better": "higher"}, {}).verdict == "not reproduced"
    assert judged({"value": 0.5, "better": "higher"}, {}).reason == "better than claimed"


def test_a_speed_up_is_over_the_fastest_baseline_of_the_same_case_and_machine(judged):
    claim = {"value": 2, "unit": "x", "params": {"impl": "ours"}, "baseline": {"metric": "time"}, "over": "best"}
    records = (
        {"params": {"impl": "ours", "n": 8}}, {"params": {"impl": "torch", "n": 8}, "samples": THEIRS},
        {"params": {"impl": "naive", "n": 8}, "samples": (9.0, 9.1)},
        {"params": {"impl": "ours-packed", "n": 8}, "samples": (0.1, 0.1)},
        {"params": {"impl": "torch", "n": 8}, "samples": (0.5, 0.5), "cpu": "another"},
        {"params": {"impl": "torch", "n": 9}, "samples": (50.0, 50.0)},
    )  # fmt: skip
    found = judged(claim, *records)
    assert (found.verdict, found.measured) == ("reproduced", 2.0) and found.low < 1 < found.high
    assert judged({**claim, "value": 4}, *records).verdict == "not reproduced"
    packed = {**claim, "value": 0.1, "baseline": {"params": {"impl": "ours-packed"}}}
    assert judged(packed, *records).verdict == "reproduced"  # a variation that the claim names
    alone = judged(claim, records[0])
    assert alone.verdict == "not comparable" and "its baseline was not measured" in alone.reason


@pytest.mark.parametrize("change", [{"unit": "us"}, {"commit": "a" * 40}, {"command": "c 2"}], ids=str)
def test_an_implementation_is_not_its_own_baseline(judged, change):
    claim = {"value": 2, "unit": "x", "params": {"impl": "ours"}, "baseline": {"metric": "time"}, "over": "best"}
    ours = {"params": {"impl": "ours"}}
    found = judged(claim, ours, {**ours, "samples": THEIRS, "time": "2026-01-01T00:00:00Z", **change})
    assert (found.verdict, found.measured) == ("not comparable", None)
    assert found.reason == "its baseline was not measured for the same case"


def test_times_are_converted_and_other_units_are_not_comparable(judged):
    seconds = {"unit": "s", "samples": tuple(sample / 1000 for sample in OURS)}
    assert judged({"value": 1}, seconds).ratio == 1.0
    assert judged({"value": 0.001}, seconds).verdict == "not reproduced"
    found = judged({"value": 1}, {"unit": "MB"})
    assert (found.verdict, found.reason, found.ratio) == ("not comparable", "measured in MB, claimed in ms", None)


def test_a_recipe_cannot_claim_in_another_unit_than_its_benchmark_prints():
    value = {"pattern": "^(?P<value>.*)", "metric": "t", "unit": "ms"}
    recipe = {
        "name": "x",
        "paper": {"title": "T", "venue": "V", "year": 2020, "licence": "none"},
        "variants": {"cpu": {"base": "debian:12"}},
        "benchmarks": {"b": {"command": "c", "parse": {"values": [value]}}},
        "claims": [{"metric": "t", "value": 1, "unit": "s", "hardware": "h", "where": "w"}],
    }
    Recipe.model_validate(recipe)
    recipe["claims"][0]["unit"] = "MB"
    refused = "the claim about t is in 'MB', but b measures it in 'ms'"
    with pytest.raises(ValidationError, match=refused):
        Recipe.model_validate(recipe)
    ratio = {**recipe["claims"][0], "unit": "x", "baseline": {"value": 1, "unit": "s"}}
    Recipe.model_validate({**recipe, "claims": [ratio]})
    without_unit = refused.replace("MB", "")
    for baseline, error in [
        ({"value": 1, "unit": "MB"}, refused),
        ({"value": 1}, without_unit),
        ({"metric": "u", "unit": "s"}, "that of its `value`"),
    ]:
        with pytest.raises(ValidationError, match=error):
            Recipe.model_validate({**recipe, "claims": [{**ratio, "baseline": baseline}]})


def test_the_baseline_of_a_case_is_not_that_of_an_easier_one():
    recipe = load_recipe("atoffer")
    (claim,) = (each for each in recipe.claims if each.metric == "mha.atoffer" and each.gpu == "RTX 4090")
    spec = {"recipe": "atoffer", "unit": "ms", "gpu": "NVIDIA GeForce RTX 4090", "driver": "550"}
    times = {("native", 64): 0.1, ("native", 1024): 2217.0, ("atoffer", 64): 0.1, ("atoffer", 1024): 1000.0}
    records = [
        replace(RECORD, **spec, metric=f"mha.{name}", samples=(time,), params={**claim.params, "seq_len": length})
        for (name, length), time in times.items()
    ]
    found = next(each for each in judge(recipe, groups(records), bundled()) if each.claim is claim)
    assert (found.verdict, found.ratio) == ("reproduced", 1.0)


@pytest.mark.parametrize("over", ["mean", "best"])
def test_cases_of_other_machines_or_variants_are_not_mixed(judged, over):
    first = {"time": "2026-01-01T00:00:00Z", "samples": (0.01, 0.01)}
    for change in ({"cpu": "Xeon"}, {"variant": "cuda"}, {"gpu": "NVIDIA H200"}):
        found = judged({"value": 1, "over": over}, {**first, **change}, {"params": {"n": 1}}, {"params": {"n": 2}})
        assert (found.measured, found.verdict) == (1.0, "reproduced")
        assert found.reason == f"only the latest of 2 sets of unlike records, which differ in {', '.join(change)}"


@pytest.mark.parametrize(
    "change",
    [{"variant": "cuda"}, {"image_digest": "sha256:3d"}, {"driver": "470"}, {"files": {"g": "1"}}, {"threads": 9}],
)
def test_a_baseline_of_other_conditions_is_not_comparable(judged, change):
    claim = {"value": 2, "unit": "x", "params": {"impl": "ours"}, "baseline": {"params": {"impl": "torch"}}}
    ours, torch = {"params": {"impl": "ours"}}, {"params": {"impl": "torch"}, "samples": THEIRS}
    found = judged(claim, ours, {**torch, **change})
    (name,) = change
    assert found.verdict == "not comparable" and found.reason.startswith("its baseline was measured apart: differs in")
    assert name in found.reason
    # A like one counts, even if it is older.
    assert judged(claim, ours, torch, {**torch, **change, "time": "2027-01-01T00:00:00Z"}).ratio == 1.0
    commits = judged(claim, ours, {**torch, "commit": "a" * 40, "dirty": True})
    assert commits.verdict == "reproduced"
    assert commits.reason == "measured in a checkout with changes; its records differ in commit, dirty"


def test_the_baseline_can_be_another_variant_on_the_same_machine(judged):
    claim = {"value": 2000, "unit": "x", "baseline": {"variant": "cpu"}}
    on_cpu = {"variant": "cpu", "gpu": "", "driver": "", "image_digest": "sha256:3d", "unit": "s", "samples": THEIRS}
    assert judged(claim, {"variant": "cuda"}, on_cpu).ratio == 1.0
    for change in ({"cpu": "Xeon"}, {"variant": "other"}, {"gpu": "NVIDIA A100"}):
        assert judged(claim, {"variant": "cuda"}, {**on_cpu, **change}).verdict == "not comparable"


def test_a_number_of_the_paper_can_be_the_baseline(judged):
    found = judged({"value": 3, "baseline": {"value": 3.0, "unit": "ms"}}, {"samples": (0.9, 1.0, 1.1) * 3})
    assert (found.verdict, found.measured) == ("reproduced", 3.0) and 0.9 < found.low < 1 < found.high < 1.2
    assert judged({"value": 3, "baseline": {"value": 0.003, "unit": "s"}}, {}).measured == pytest.approx(3)
    other = judged({"value": 3, "baseline": {"value": 3, "unit": "GB"}}, {})
    assert (other.verdict, other.reason) == ("not comparable", "measured in ms, its baseline is in GB")
    ratio = {"value": 3, "baseline": {"value": 3}}
    assert judged(ratio, {"unit": ""}).measured == pytest.approx(3)
    assert judged(ratio, {}).reason == "measured in ms, its baseline is in no unit"


@pytest.mark.parametrize(
    ("gpu", "change", "reason"),
    [
        ("H200", {"gpu": "NVIDIA A100-SXM4-40GB"}, "measured on NVIDIA A100-SXM4-40GB, claimed for NVIDIA H200"),
        ("H200", {"gpu": ""}, "measured on a CPU (EPYC)"),
        ("any", {"gpu": ""}, "measured on a CPU (EPYC)"),
        ("none", {}, "measured on a GPU (2x NVIDIA H200)"),
    ],
)
def test_other_hardware_is_not_comparable_and_shows_its_number(judged, gpu, change, reason):
    found = judged({"value": 1, "gpu": gpu}, change)
    assert found.verdict == "not comparable" and found.reason.startswith(reason)
    assert found.measured == 1.0


def test_other_cases_are_not_comparable(judged):
    found = judged({"value": 1, "params": {"batch": 16}}, {"params": {"batch": 8}})
    assert (found.verdict, found.reason) == ("not comparable", "measured for other cases, not batch 16")
    both = judged({"value": 1}, {"params": {"batch": 8}}, {"params": {"batch": 9}})
    assert both.verdict == "not comparable" and "2 cases were measured" in both.reason
    assert judged({"value": 1, "over": "mean"}, {"params": {"batch": 8}}, {"params": {"batch": 9}}).measured == 1.0


@pytest.mark.parametrize(
    ("claim", "samples", "reason"),
    [
        ({"value": 0}, (0.0, 0.0), "no ratio: a number is 0 or less, or too large"),
        ({"value": 1}, (0.0, 0.0), "no ratio: a number is 0 or less, or too large"),
        (
            {"value": 1, "baseline": {"value": 2, "unit": "ms"}},
            (0.0, 0.0),
            "no ratio: a number is 0 or less, or too large",
        ),
        ({"value": 1, "over": "mean"}, (0.0, 0.0), "no geometric mean: a number is 0 or less"),
        ({"value": 1e-300}, (1e150, 1e150), "no ratio: a number is 0 or less, or too large"),
    ],
)
def test_zero_has_no_ratio(judged, claim, samples, reason):
    found = judged(claim, {"samples": samples})
    assert (found.verdict, found.reason, found.ratio) == ("not comparable", reason, None)
    json.dumps(found.to_json(), allow_nan=False)


def test_what_was_not_measured_names_the_command(judged):
    found = judged({"value": 1})
    assert (found.verdict, found.command) == ("not measured", "reprokit bench x:cuda b --repeat 10")
    words = judged({"value": 1, "metric": "speed in words"})
    assert (words.reason, words.command) == ("no benchmark of the recipe measures it", "")
    assert found.command in as_table([found], "claims").rows[0]
    assert as_lines([found]) == [
        ("not measured", ["x: time", "paper 1 ms (Table 1; NVIDIA H200)", found.command]),
    ]


def test_a_claim_of_a_cpu_is_not_asked_for_its_gpu(judged):
    on_cpu = {"gpu": "", "driver": "", "cpu": "Intel Xeon E5-2680"}
    assert "which GPU" not in judged({"value": 1.0, "gpu": "", "cpu": "Xeon E5-2680"}, on_cpu).reason
    assert "which GPU" in judged({"value": 1.0, "gpu": ""}, on_cpu).reason


def test_doubts_stand_beside_the_verdict(judged):
    assert "in doubt: heat" in judged({"value": 1}, {"warnings": ("heat",)}).reason
    assert "does not say on which GPU" in judged({"value": 1, "gpu": ""}, {}).reason
    on_cpu = {"value": 2, "gpu": "none", "params": {"impl": "a"}, "baseline": {"params": {"impl": "b"}}}
    pair = {"gpu": "", "params": {"impl": "a"}}, {"gpu": "", "params": {"impl": "b"}, "samples": THEIRS}
    ratio = judged(on_cpu, *pair)
    assert (ratio.verdict, ratio.reason) == ("reproduced", "the recipe does not say on which CPU it was measured")


@pytest.mark.parametrize("name", recipe_names())
def test_bundled_claims_are_machine_readable(name):
    recipe, facts = load_recipe(name), bundled()
    found = judge(recipe, [], facts)
    assert recipe.claims or name == "operator-fusion", "a paper claims something"
    assert all(claim.gpu for claim in recipe.claims)
    for each in found:
        # Either a benchmark measures it, or the metric is words.
        assert bool(each.command) != (" " in each.claim.metric), each.claim.metric


@pytest.mark.parametrize("over", ["mean", "best", "case"])
def test_cases_without_a_baseline_are_counted(judged, over):
    claim = {"value": 2, "unit": "x", "params": {"impl": "ours"}, "baseline": {"params": {"impl": "torch"}}}
    records = [{"params": {"impl": "ours", "n": n}} for n in range(3)]
    found = judged({**claim, "over": over}, *records, {"params": {"impl": "torch", "n": 1}, "samples": THEIRS})
    assert (found.verdict, found.measured) == ("reproduced", 2.0)
    assert found.reason == "2 of 3 cases do not count: its baseline was not measured for the same case"


@pytest.mark.parametrize("over", ["mean", "best"])
def test_a_partly_measured_matrix_is_named(over):
    recipe = Recipe.model_validate(
        {
            "name": "x",
            "paper": {"title": "T", "venue": "V", "year": 2020, "licence": "none"},
            "variants": {"cpu": BASE},
            "benchmarks": {
                "b": {
                    "command": "c",
                    "matrix": {"N": [1, 2.0, 4], "fused": [True, False]},
                    "parse": {"format": "records", "metrics": ["time"]},
                }
            },
            "claims": [
                {"metric": "time", "value": 1, "unit": "ms", "over": over, "params": {"fused": True},
                 "hardware": "H", "gpu": "any", "where": "T"}
            ],
        }
    )  # fmt: skip

    def reason(*params: dict) -> str:
        changes = {"recipe": "x", "benchmark": "b", "metric": "time", "samples": OURS, **H200}
        records = [replace(RECORD, **changes, params=each, variables={}) for each in params]
        (found,) = judge(recipe, groups(records), bundled())
        assert found.verdict == "reproduced"
        return found.reason

    whole = [{"N": n, "fused": "true", "case": "a"} for n in (1, 2, 4)]
    assert reason(*whole) == ""
    assert reason(*whole[:2]) == "1 of 3 combinations of the matrix of b were not measured"
