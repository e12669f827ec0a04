"""Two sets side by side: like cases are compared, unlike ones are named."""

from __future__ import annotations

import pytest

from reprokit.errors import UsageError
from reprokit.results.comparison import as_table, compare
from reprokit.results.likeness import groups
from reprokit.results.selection import selection

A, B = "aa" * 20, "bb" * 20
FAST, SLOW = (1.0, 1.01, 0.99, 1.02, 1.0), (2.0, 2.01, 1.99, 2.02, 2.0)
FIRST, SECOND = {"commit": A, "samples": FAST}, {"commit": B, "samples": SLOW}


@pytest.fixture
def compared(record):
    """The comparison of commit A with commit B in these records."""

    def run(*changes: dict, fields=("commit",)):
        every = groups(record(**change) for change in changes)
        sides = [[group for group in every if group.identity["commit"] == commit] for commit in (A, B)]
        return compare(*sides, fields)

    return run


@pytest.fixture
def only(compared):
    """The comparison if both sets have one case, and the same."""

    def run(*changes: dict, fields=("commit",)):
        ((case,), alone) = compared(*changes, fields=fields)
        assert alone == 0
        return case

    return run


def test_each_case_of_both_sets_is_compared(compared):
    case = {"benchmark": "x", "samples": FAST}
    cases, alone = compared(FIRST, SECOND, {"commit": A, **case}, {"commit": B, **case}, {"commit": B, "metric": "new"})
    assert [case.verdict for case in cases] == ["higher", "no difference found"]
    assert (alone, cases[0].effect.ratio) == (1, 2.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        {"cpu": "Xeon"}, {"threads": 8}, {"gpu": "H200"}, {"files": {"g": "1"}}, {"command": "other"},
        {"environment": {"torch": "2.13.0+cpu", "g": "1"}},
    ],
)  # fmt: skip
def test_another_machine_or_other_data_is_unlike_unless_it_was_chosen(only, change):
    (field,) = change
    name = f"{field}.g" if isinstance(change[field], dict) else field
    assert only(FIRST, {**SECOND, **change}).verdict == f"unlike: differ in {name}"
    assert only(FIRST, {**SECOND, **change}, fields=("commit", field)).verdict == "higher"


def test_another_instruction_set_is_unlike(only):
    devices = [{"environment": {"device": {"name": "cpu", "capability": kernels}}} for kernels in ("avx2", "avx512")]
    assert only(FIRST | devices[0], SECOND | devices[1]).verdict == "unlike: differ in environment.device"


def test_what_a_change_of_the_code_brings_along_is_noted(only):
    new = {"torch": "2", "build": "5f"}
    change = {"image_digest": "sha256:3d", "input_hash": "4e", "dirty": True, "environment": new}
    old = {**FIRST, "environment": {"torch": "2", "build": "6a"}}
    case = only(old, {**SECOND, **change})
    assert case.verdict == "higher"
    assert "the sets also differ in input_hash, image_digest, dirty, environment.build" in case.notes
    # Who compares images does not compare commits.
    case = only(old, {**SECOND, "environment": {"torch": "3"}}, fields=("image_digest",))
    assert "the sets also differ in commit, environment.build, environment.torch" in case.notes


def test_variants_are_compared_with_themselves_unless_they_were_chosen(compared, only):
    cuda = {**SECOND, "variant": "cuda"}
    assert compared(FIRST, cuda) == ([], 2)
    assert only(FIRST, cuda, fields=("commit", "variant")).verdict == "higher"
    other = {**SECOND, "benchmark": "other", "command": "other"}
    assert only(FIRST, other, fields=("commit", "benchmark")).verdict == "higher"
    (case,), alone = compared(FIRST, cuda, {"commit": B, "samples": FAST})
    assert (case.verdict, alone) == ("no difference found", 1)


def test_doubts_and_records_that_are_not_compared_are_noted(record, only):
    every = groups([record(samples=FAST), record(samples=SLOW)])
    (case,), _ = compare(every, every, ())
    assert "some records are in both sets" in case.notes
    old = {"commit": A, "samples": SLOW, "driver": "1", "time": "2020-01-01T00:00:00Z"}
    case = only(old, FIRST, {"commit": B, "samples": FAST})
    assert case.verdict == "no difference found"
    assert case.notes[0] == "A: only the latest of 2 sets of unlike records, which differ in driver"
    case = only({**FIRST, "warnings": ("heat",)}, {"commit": B, "samples": FAST})
    assert case.notes == ("A: in doubt: heat", "samples of 1 run: differences between runs are not in the interval")


def test_sets_that_were_not_measured_in_turns_are_noted(only):
    for order, apart in (((A, A, B, B), True), ((A, B, A, B), False)):
        case = only(*({"commit": c, "samples": FAST, "time": f"2026-11-2{n}T00:00:00Z"} for n, c in enumerate(order)))
        assert any("measured after the other" in note for note in case.notes) == apart


def test_runs_are_compared_where_there_are_enough(only):
    # Each run has samples of its own level: ten samples of two levels would look like a sure difference.
    levels = [(1.0, 1.2, 1.0, 1.2, 1.0, 1.2), (1.2, 1.0, 1.2, 1.2, 1.0, 1.0)]
    samples = [tuple(level for level in side for _ in range(10)) for side in levels]
    case = only(*({"commit": c, "samples": s, "repeats": (10,) * 6} for c, s in zip((A, B), samples, strict=True)))
    assert case.verdict == "no difference found" and case.effect.p > 0.2


def test_the_medians_are_those_of_what_is_compared(only):
    # One run has most of the samples.
    samples = {"commit": A, "samples": (1.0,) * 100 + (2.0,) * 40}, {"commit": B, "samples": (2.0, 4.0) * 25}
    case = only({**samples[0], "repeats": (100, 10, 10, 10, 10)}, {**samples[1], "repeats": (10,) * 5})
    assert as_table([case], "").rows[0][2:5] == ("2", "3", "1.500")
    assert [case.to_json()[side]["median"] for side in "ab"] == [2.0, 3.0]
    case = only({**samples[0], "repeats": (100, 40)}, {**samples[1], "repeats": (25, 25)})
    assert as_table([case], "").rows[0][2:5] == ("1", "3", "3.000")


def test_the_table_says_how_many_samples_or_runs_a_noisy_case_needs(only):
    noisy = (1.0, 1.3, 0.9, 1.2, 1.1, 1.0)
    table = as_table([only({"commit": A, "samples": noisy}, {"commit": B, "samples": noisy[::-1]})], "B against A")
    assert table.rows[0][-1] == "no difference found"
    assert any("samples in each set would find a slow-down of 5%" in note for note in table.notes)
    samples = tuple(level for level in (1.0, 1.2, 1.4, 1.1, 1.3, 1.15) for _ in range(100))
    case = only(*({"commit": commit, "samples": samples, "repeats": (100,) * 6} for commit in (A, B)))
    assert case.verdict == "no difference found" and 6 < case.effect.needed < 600
    note = f"{case.effect.needed} runs in each set would find a slow-down of 5%"
    assert any(note in text for text in as_table([case], "").notes)
    assert (case.to_json()["compared"], case.to_json()["a"]["samples"]) == ("runs", 600)


def test_a_parameter_can_be_compared_and_is_selected_as_recipes_and_json_write_it(record):
    every = groups([record(samples=FAST), record(samples=SLOW, params={"batch": 8, "impl": "torch"})])
    sides = [selection(f"param.impl={name}", every) for name in ("ours", "torch")]
    (case,), alone = compare(*(side.groups(every) for side in sides), sides[0].fields)
    assert (case.verdict, alone) == ("higher", 0)
    every = groups([record(params={"causal": True, "x": 1.0, "n": 2, "t": "1.0"})])
    for text in ("causal=true", "causal=True", "x=1", "x=1.0", "n=2", "t=1.0"):
        assert selection(f"param.{text}", every).groups(every) == every, text
    for text in ("causal=1", "x=2", "n=2.5", "missing=None"):
        assert selection(f"param.{text}", every).groups(every) == [], text


def test_sets_are_named_by_field_or_by_what_a_word_can_mean(record):
    every = groups([record(commit=A, node="alpha"), record(commit=B, image_digest="sha256:" + "3d" * 32)])
    assert selection("aaaa", every).terms == (("commit", "aaaa"),)
    assert selection("3d3d3d", every).terms == (("image_digest", "3d3d3d"),)
    assert selection("alpha,metric=x", every).terms == (("node", "alpha"), ("metric", "x"))
    assert len(selection("cpu", every).groups(every)) == 2  # the variant
    for text, message in (("cafe", "no record has"), ("colour=x", "no such field"), ("aa", "no record has")):
        with pytest.raises(UsageError, match=message):
            selection(text, every)
    with pytest.raises(UsageError, match="can mean") as error:
        selection("cpu", groups([record(node="cpu")]))
    assert error.value.hint == "write for example node=cpu"
