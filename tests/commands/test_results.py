"""`reprokit results`, on records in the folder where the user stands."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from reprokit.errors import UsageError
from reprokit.results.lines import append, read
from tests.support.records import RECORD

A, B = "aa" * 20, "bb" * 20
SPMM = replace(RECORD, recipe="x", metric="spmm", benchmark="spmm", params={}, samples=(1.0, 3.0))
QUICK = (1.0, 1.007, 1.002, 1.005, 1.001, 1.006, 1.003, 1.004)


@pytest.fixture
def recorded(tmp_path):
    return lambda *records: append(tmp_path, "results/x.jsonl", records)


def test_unlike_records_are_shown_apart_with_the_reason(call, recorded):
    unlike = replace(SPMM, samples=(9.0,), image_digest="sha256:3d", cpu="Xeon")
    recorded(SPMM, unlike, replace(SPMM, time="2026-11-21T09:00:01Z"))
    shown = call("results", "show", "x").stdout
    rows = [line.split() for line in shown.splitlines() if ".." in line and line[0] == " "]
    assert rows == [["2", "1..3", "4"], ["9", "9..9", "1"]]
    note = "not averaged with other records of this benchmark: they differ in"
    assert shown.count(note) == 1 and note in shown.partition("all tables\n")[2]


def test_what_is_shown_is_of_the_variant_and_benchmarks_that_are_named(call, recorded):
    recorded(SPMM, replace(SPMM, variant="cuda"), replace(SPMM, benchmark="kernel"))
    for arguments, count in ((["x"], 3), (["x:cpu"], 2), (["x:cpu", "kernel"], 1)):
        assert len(json.loads(call("results", "show", *arguments, "--json").stdout)["records"]) == count
    listed = json.loads(call("results", "list", "--json").stdout)
    assert all(type(row[name]) is int for row in listed for name in ("cases", "records", "samples"))
    assert [(row["recipe"], row["benchmark"], row["records"]) for row in listed] == [
        ("x:cpu", "spmm", 1), ("x:cuda", "spmm", 1), ("x:cpu", "kernel", 1),
    ]  # fmt: skip


def test_records_of_other_recipes_and_variants_are_not_shown(call, error, recorded):
    recorded(SPMM, replace(SPMM, recipe="other"), replace(SPMM, variant="cuda"))
    for form in ([], ["--json"]):
        assert "other" not in call("results", "show", "x", *form).stdout
        assert "cuda" not in call("results", "show", "x:cpu", "--records", "results/x.jsonl", *form).stdout
        for wrong in ("x:nope", "x no", "x:nope --records results/x.jsonl"):
            failure = error(UsageError, "results", "show", *wrong.split(), *form)
            assert failure.message == f"no record of {wrong.partition(' --')[0]}"


def test_a_report_has_the_records_of_its_recipe(call, error, recorded, tmp_path, recipe, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere")
    recipe("x", "variants: {cpu: {base: 'debian:12'}}\n")
    recorded(replace(SPMM, recipe="other"))
    report = ("report", "x", "--records", "results/x.jsonl", "-o", "out")
    assert error(UsageError, *report).message == "no record of x"
    recorded(replace(SPMM, image_digest=f"sha256:{'1' * 64}"))  # no engine has this image
    assert call(*report).exit_code == 0
    assert "other:cpu" not in (tmp_path / "out" / "index.html").read_text()
    done = call("results", "claims", "x")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "x has no claims\n")
    assert json.loads(call("results", "claims", "x", "--json").stdout) == {"claims": []}


def test_what_a_benchmark_printed_outside_is_shown(call, tmp_path):
    (tmp_path / "printed.jsonl").write_text(
        '{"environment": {"processor": "EPYC", "threads": 2}, "time": "2026-11-21T09:00:00Z"}\n'
        '{"metric": "spmm", "unit": "ms", "samples": [1.5, 2.5], "params": {"rows": 8}}\n'
    )
    shown = "".join(call("results", "show", "x", "--records", "printed.jsonl").stdout.split())
    assert "x:hostprinted:spmm[ms]" in shown and "EPYC,2threads,noimage" in shown


def test_commits_and_files_are_compared(call, recorded, tmp_path):
    recorded(replace(SPMM, commit=A, samples=QUICK), replace(SPMM, commit=B, samples=QUICK))
    append(tmp_path, "b.jsonl", [replace(SPMM, samples=QUICK, cpu="Xeon")])
    answer = call("results", "compare", "results/x.jsonl", "b.jsonl")
    assert answer.exit_code == 0 and "unlike: differ in cpu" in answer.stdout
    same = call("results", "compare", "aaaa", "bbbb")
    assert same.exit_code == 0 and "no difference found" in same.stdout
    recorded(replace(SPMM, commit="cc" * 20, samples=tuple(2 * n for n in QUICK)))
    slower = call("results", "compare", "aaaa", "cccc", "--json")
    assert slower.exit_code == 1
    (case,) = json.loads(slower.stdout)["cases"]
    assert (case["verdict"], case["ratio"]) == ("higher", 2.0) and case["low"] < 2 < case["high"]


def test_history_and_export(call, recorded, tmp_path):
    recorded(SPMM, replace(SPMM, samples=(4.0,), commit=A, time="2027-01-01T00:00:00Z"))
    assert "▁█" in call("results", "history", "spmm").stdout
    assert call("results", "history", "spmm", "--plot", "h.svg").exit_code == 0
    assert (tmp_path / "h.svg").read_text().startswith("<?xml")
    for form, part in (("--csv", "2,1..3,2"), ("--markdown", "| 2 |"), ("--latex", "\\toprule")):
        assert part in call("results", "export", "x", form).stdout


def test_old_records_are_removed_with_consent(call, recorded, tmp_path):
    times = [f"2026-11-{day}T00:00:00Z" for day in (20, 21, 22)]
    recorded(*(replace(SPMM, time=time) for time in times), replace(SPMM, cpu="Xeon", time=times[0]))
    asked = call("results", "prune", "x", "--last", "2")
    assert isinstance(asked.exception, UsageError) and "1 of 4 records" in asked.exception.message
    assert call("results", "prune", "x", "--last", "2", "--yes").exit_code == 0
    left = read(tmp_path / "results" / "x.jsonl")
    assert [(r.cpu, r.time[8:10]) for r in left] == [("EPYC", "21"), ("EPYC", "22"), ("Xeon", "20")]
    assert call("results", "prune", "x", "--before", "2026-11-22", "--yes").exit_code == 0
    assert len(read(tmp_path / "results" / "x.jsonl")) == 1


def test_old_records_are_those_of_the_variant_and_the_day_that_are_named(call, recorded, tmp_path, monkeypatch):
    file = tmp_path / "results" / "x.jsonl"
    recorded(*(replace(SPMM, variant=v, time=f"2026-01-{day}T00:00:00Z") for v in "ab" for day in ("03", "10")))
    for day in ("2026-1-5", "tomorrow"):
        failure = call("results", "prune", "x", "--before", day, "--yes").exception
        assert isinstance(failure, UsageError) and failure.message == f"not a day: {day}"
    # A record that another process appends while the user is asked stays.
    monkeypatch.setattr("reprokit.consent.require", lambda *_: recorded(replace(SPMM, variant="a", time="2026-01-01")))
    assert call("results", "prune", "x:a", "--before", "2026-01-05").exit_code == 0
    assert [(r.variant, r.time[:10]) for r in read(file)] == [
        ("a", "2026-01-10"), ("b", "2026-01-03"), ("b", "2026-01-10"), ("a", "2026-01-01"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show", "x"], "no results yet"), (["list"], "no results yet"), (["show", "../x"], "not the name of a recipe"),
        (["export", "x"], "one format"), (["prune", "x"], "one rule"),
    ],
)  # fmt: skip
def test_wrong_usage_is_named(call, arguments, message):
    failure = call("results", *arguments).exception
    assert isinstance(failure, UsageError) and message in failure.message


def test_missing_results_are_named_with_those_there_are(call, recorded, tmp_path):
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "x.jsonl").write_text("")
    failure = call("results", "list").exception
    assert (failure.message, failure.hint) == ("no results yet", "`reprokit bench NAME` measures some")
    recorded(SPMM)
    failure = call("results", "show", "xy").exception
    assert failure.message == "no results of xy; did you mean x?" and failure.hint == "there are x"


HUGE = 10**24 - 1  # the most digits that are read


@pytest.mark.slow
def test_numbers_at_the_end_of_what_floats_hold(call, recorded, tmp_path, recipe):
    recipe("x", "variants: {cpu: {base: 'debian:12'}}\nclaims: [{metric: spmm, value: 1, hardware: h, where: w}]\n")
    extremes = [(1e150, 5e-324), (-1e150, 1e150), (0.0, 0.0), (5e-324,) * 9, (1e150,) * 9]
    params = ({"n": HUGE}, {"n": -1e300}, {"n": 1}, {"n": 2})
    for number, samples in enumerate(extremes):
        case = replace(SPMM, benchmark=f"b{number}")
        recorded(*(replace(case, samples=samples, params=each, commit=A) for each in params))
        recorded(*(replace(case, samples=QUICK, params=each, commit=B) for each in params))
    for verb in (["results", "compare", "aaaa", "bbbb"], ["results", "compare", "bbbb", "aaaa"], ["results", "show"],
                 ["results", "history", "spmm"], ["results", "claims"], ["report", "-o", "out"]):  # fmt: skip
        answer = call(*verb)
        assert answer.exception is None or isinstance(answer.exception, SystemExit), answer.exception
    assert "<svg" in (tmp_path / "out" / "index.html").read_text()


def test_hostile_records_cannot_control_the_terminal(call, recorded):
    recorded(replace(SPMM, metric="\x1b[2Jspmm", params={"\x1b]0;x": "\u202e"}, cpu="a\rb", commit=A), SPMM)
    for verb in (["show", "x"], ["list"], ["history", "spmm"], ["export", "x", "--csv"], ["compare", "cpu", "cpu"]):
        assert not set("\x1b\r\u202e") & set(call("results", *verb).stdout)
