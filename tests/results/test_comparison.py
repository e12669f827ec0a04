"""Two sets side by side: like cases are compared, unlike ones are named."""

from __future__ import annotations

import pytest

from reprokit.errors import UsageError
from reprokit.results.comparison import as_table, compare
from reprokit.results.likeness import groups
from reprokit.results.selection import selection

A, B = "aa" * 20, "bb" * 20
FAST, SLOW = (1.0, 1.01, 0.99, 1.02, 1.0), (2.0, 2.01, 1.99, 2.02, 2.0)


@pytest.fixture
def compared(record):
    """The comparison of commit A with commit B in these records."""

    def run(*changes: dict, fields=("commit",)):
        every = groups(record(**change) for change in changes)
        sides = [[group for group in every if group.identity["commit"] == commit] for commit in (A, B)]
        return compare(*sides, fields)

    return run


def test_each_case_of_both_sets_is_compared(compared):
    case = {"benchmark": "x"}
    cases, alone = compared(
        {"commit": A, "samples": FAST}, {"commit": B, "samples": SLOW},
        {"commit": A, "samples": FAST, **case}, {"commit": B, "samples": FAST, **case},
        {"commit": B, "metric": "new"},
    )  # fmt: skip
    assert [case.verdict for case in cases] == ["higher", "no difference found"]
    assert alone == 1
    assert cases[0].effect.ratio == 2.0


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        {"cpu": "Xeon"}, {"threads": 8}, {"gpu": "H200"}, {"files": {"g": "1"}}, {"command": "other"},
        {"services": {"g": "sha256:1"}}, {"environment": {"torch": "2.13.0+cpu", "g": "1"}},
    ],
)  # fmt: skip
def test_another_machine_or_other_data_is_unlike_unless_it_was_chosen(compared, change):
    (field,) = change
    records = {"commit": A, "samples": FAST}, {"commit": B, "samples": SLOW, **change}
    name = f"{field}.g" if isinstance(change[field], dict) else field
    assert compared(*records)[0][0].verdict == f"unlike: differ in {name}"
    assert compared(*records, fields=("commit", field))[0][0].verdict == "higher"


def test_what_a_change_of_the_code_brings_along_is_noted(compared):
    change = {
        "image_digest": "sha256:3d",
        "input_hash": "4e",
        "dirty": True,
        "environment": {"torch": "2", "build": "5f"},
    }
    old = {"commit": A, "samples": FAST, "environment": {"torch": "2", "build": "6a"}}
    (case,), _ = compared(old, {"commit": B, "samples": SLOW, **change})
    assert case.verdict == "higher"
    assert "the sets also differ in input_hash, image_digest, dirty, environment.build" in case.notes
    # Who compares images does not compare commits.
    (case,), _ = compared(old, {"commit": B, "samples": SLOW, "environment": {"torch": "3"}}, fields=("image_digest",))
    assert "the sets also differ in commit, environment.build, environment.torch" in case.notes


def test_variants_are_compared_with_themselves_unless_they_were_chosen(compared):
    records = [{"commit": A, "samples": FAST}, {"commit": B, "samples": SLOW, "variant": "cuda"}]
    assert compared(*records) == ([], 2)
    assert compared(*records, fields=("commit", "variant"))[0][0].verdict == "higher"
    other = {"commit": B, "samples": SLOW, "benchmark": "other", "command": "other"}
    assert compared(records[0], other, fields=("commit", "benchmark"))[0][0].verdict == "higher"
    (case,), alone = compared(*records, {"commit": B, "samples": FAST})
    assert (case.verdict, alone) == ("no difference found", 1)


def test_records_in_both_sets_are_named(record):
    every = groups([record(samples=FAST), record(samples=SLOW)])
    (case,), _ = compare(every, every, ())
    assert "some records are in both sets" in case.notes


def test_unlike_records_of_one_set_are_not_averaged(compared):
    old = {"commit": A, "samples": SLOW, "driver": "1", "time": "2020-01-01T00:00:00Z"}
    (case,), _ = compared(old, {"commit": A, "samples": FAST}, {"commit": B, "samples": FAST})
    assert case.verdict == "no difference found"
    assert case.notes[0] == "A: only the latest of 2 sets of unlike records, which differ in driver"


def test_doubts_are_repeated_and_samples_of_few_runs_named(compared):
    (case,), _ = compared({"commit": A, "samples": FAST, "warnings": ("heat",)}, {"commit": B, "samples": FAST})
    assert case.notes == ("A: in doubt: heat", "samples of 1 run: differences between runs are not in the interval")


def test_sets_that_were_not_measured_in_turns_are_said(compared):
    times = [f"2026-11-2{n}T00:00:00Z" for n in range(4)]
    for order, said in (((A, A, B, B), True), ((A, B, A, B), False)):
        (case,), _ = compared(*({"commit": c, "samples": FAST, "time": t} for c, t in zip(order, times, strict=True)))
        assert any("measured after the other" in note for note in case.notes) == said


def test_runs_are_compared_where_there_are_enough(compared):
    # Each run has samples of its own level: ten samples of two levels would look like a sure difference.
    runs = [level for level in (1.0, 1.2, 1.0, 1.2, 1.0, 1.2) for _ in range(10)]
    shifted = [level for level in (1.2, 1.0, 1.2, 1.2, 1.0, 1.0) for _ in range(10)]
    spec = {"repeats": (10,) * 6}
    (case,), _ = compared(
        {"commit": A, "samples": tuple(runs), **spec}, {"commit": B, "samples": tuple(shifted), **spec}
    )
    assert case.verdict == "no difference found" and case.effect.p > 0.2


def test_the_medians_are_those_of_what_is_compared(compared):
    # One run has most of the samples.
    a = {"commit": A, "samples": (1.0,) * 100 + (2.0,) * 40, "repeats": (100, 10, 10, 10, 10)}
    (case,), _ = compared(a, {"commit": B, "samples": (2.0, 4.0) * 25, "repeats": (10,) * 5})
    assert as_table([case], "").rows[0][2:5] == ("2", "3", "1.500")
    assert [case.to_json()[side]["median"] for side in "ab"] == [2.0, 3.0]
    few = {"commit": A, "samples": (1.0,) * 100 + (2.0,) * 40, "repeats": (100, 40)}
    (case,), _ = compared(few, {"commit": B, "samples": (2.0, 4.0) * 25, "repeats": (25, 25)})
    assert as_table([case], "").rows[0][2:5] == ("1", "3", "3.000")


def test_a_parameter_can_be_what_is_compared(record):
    every = groups([record(samples=FAST), record(samples=SLOW, params={"batch": 8, "impl": "torch"})])
    sides = [selection(f"param.impl={name}", every) for name in ("ours", "torch")]
    (case,), alone = compare(*(side.groups(every) for side in sides), sides[0].fields)
    assert (case.verdict, alone) == ("higher", 0)


def test_a_parameter_is_selected_as_recipes_and_json_write_it(record):
    every = groups([record(params={"causal": True, "x": 1.0, "n": 2, "t": "1.0"})])
    for text in ("param.causal=true", "param.causal=True", "param.x=1", "param.x=1.0", "param.n=2", "param.t=1.0"):
        assert selection(text, every).groups(every) == every, text
    for text in ("param.causal=1", "param.x=2", "param.n=2.5", "param.missing=None"):
        assert selection(text, every).groups(every) == [], text


def test_sets_are_named_by_field_or_by_what_a_word_can_mean(record):
    every = groups([record(commit=A, node="alpha"), record(commit=B, image_digest="sha256:" + "3d" * 32)])
    assert selection("aaaa", every).terms == (("commit", "aaaa"),)
    assert selection("3d3d3d", every).terms == (("image_digest", "3d3d3d"),)
    assert selection("alpha,metric=x", every).terms == (("node", "alpha"), ("metric", "x"))
    assert len(selection("cpu", every).groups(every)) == 2  # the variant
    for text, message in (("cafe", "no record has"), ("colour=x", "no such field"), ("aa", "no record has")):
        with pytest.raises(UsageError, match=message):
            selection(text, every)
    twice = groups([record(node="cpu")])
    with pytest.raises(UsageError, match="can mean") as error:
        selection("cpu", twice)
    assert error.value.hint == "write for example node=cpu"


def test_the_table_says_how_many_samples_a_noisy_case_needs(compared):
    noisy = (1.0, 1.3, 0.9, 1.2, 1.1, 1.0)
    cases, _ = compared({"commit": A, "samples": noisy}, {"commit": B, "samples": noisy[::-1]})
    table = as_table(cases, "B against A")
    assert table.rows[0][-1] == "no difference found"
    assert any("samples in each set would find a slow-down of 5%" in note for note in table.notes)


def test_the_samples_that_are_needed_are_runs_where_runs_are_compared(compared):
    noisy = (1.0, 1.2, 1.4, 1.1, 1.3, 1.15)
    samples = tuple(level for level in noisy for _ in range(100))
    cases, _ = compared(*({"commit": commit, "samples": samples, "repeats": (100,) * 6} for commit in (A, B)))
    assert cases[0].verdict == "no difference found" and 6 < cases[0].effect.needed < 600
    note = f"{cases[0].effect.needed} runs in each set would find a slow-down of 5%"
    assert any(note in text for text in as_table(cases, "").notes)
    data = cases[0].to_json()
    assert (data["compared"], data["a"]["samples"]) == ("runs", 600)


def test_another_instruction_set_is_unlike(compared):
    sides = [
        {"commit": commit, "samples": FAST, "environment": {"device": {"name": "cpu", "capability": kernels}}}
        for commit, kernels in ((A, "avx2"), (B, "avx512"))
    ]
    assert compared(*sides)[0][0].verdict == "unlike: differ in environment.device"
