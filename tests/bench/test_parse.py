"""Benchmark output as figures: the shapes that papers print, and the ways in which it can be short."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprokit.bench import printed
from reprokit.bench.parse import Measurement, parse, threads_of
from reprokit.errors import WorkFailed
from reprokit.recipe.model import Parse

FEATGRAPH = Parse.model_validate(
    {
        "context": [r"num_col_partitions: (?P<col>\d+)", r"num_feat_partitions: (?P<feat>\d+)"],
        "values": [{"pattern": r"time of \d+ runs: (?P<value>[\d.e+-]+) ms", "metric": "spmm", "unit": "ms"}],
        "expect": 4,
    }
)
RECORDS = Parse.model_validate({"format": "records"})


def featgraph_output(blocks: int) -> str:
    return "\n".join(
        f"\nnum_col_partitions: {1 << i // 2}\nnum_feat_partitions: {1 + i % 2}\ntime of 5 runs: {i}.5 ms"
        for i in range(blocks)
    )


def line(**data: object) -> str:
    return json.dumps({"metric": "m", "unit": "ms", "samples": [1.0], **data})


def test_context_stays_until_the_next_of_its_kind():
    figures = parse(FEATGRAPH, featgraph_output(4)).measurements
    assert [(f.params["col"], f.params["feat"], f.samples) for f in figures] == [
        (1, 1, (0.5,)), (1, 2, (1.5,)), (2, 1, (2.5,)), (2, 2, (3.5,)),
    ]  # fmt: skip
    assert {(f.metric, f.unit) for f in figures} == {("spmm", "ms")}


@pytest.mark.parametrize("blocks", [0, 3, 5])
def test_a_run_that_is_not_complete_fails(blocks):
    with pytest.raises(WorkFailed, match="no measurements" if blocks == 0 else f"{blocks} measurements; .* prints 4"):
        parse(FEATGRAPH, featgraph_output(blocks))


def test_several_metrics_and_parameters_may_stand_in_one_line():
    spec = Parse.model_validate(
        {
            "values": [
                {"pattern": r"length: (?P<n>\d+),.*\(ms\): (?P<value>\S+)", "metric": "time", "unit": "ms"},
                {"pattern": r"memory=(?P<value>[\d.]+)MB", "metric": "memory", "unit": "MB"},
            ]
        }
    )
    figures = parse(spec, "batch_size: 1, length: 32, average_time (ms): 1.25 memory=1410.0MB").measurements
    assert figures == (Measurement("time", "ms", (1.25,), {"n": 32}), Measurement("memory", "MB", (1410.0,), {}))


def test_repeated_figures_are_samples_of_one():
    spec = Parse.model_validate({"values": [{"pattern": "t=(?P<value>.*)", "metric": "t", "unit": "s"}], "expect": 3})
    assert parse(spec, "t=1\nt=2\nt=3").measurements == (Measurement("t", "s", (1.0, 2.0, 3.0)),)


def test_colours_and_redrawn_lines_are_no_part_of_a_figure():
    spec = Parse.model_validate({"values": [{"pattern": r"^t=(?P<value>\S+)$", "metric": "t", "unit": "s"}]})
    assert parse(spec, " 10%\r 90%\r\x1b[1;32mt=\x1b[0m4.5\r\n").measurements[0].samples == (4.5,)


@pytest.mark.parametrize("written", ["nan", "inf", "-inf", "1e999", "fast", "", "1_000", "\uff11"])
def test_what_is_no_finite_number_is_refused(written):
    spec = Parse.model_validate({"values": [{"pattern": "t=(?P<value>.*)", "metric": "t", "unit": "s"}]})
    with pytest.raises(WorkFailed, match="a line of the output holds"):
        parse(spec, f"t={written}")


def test_records_carry_unit_parameters_and_implementation():
    text = "\n".join(
        [
            "Using /tmp/torch_extensions as the build folder",
            json.dumps({"environment": {"torch": "2.13.0", "threads": 2}}),
            json.dumps({"correctness": [{"case": "fp32", "ok": True}, {"case": "bf16", "ok": True}]}),
            line(impl="ours", samples=[1, 2.5], params={"batch": 8, "mask": None, "dtype": "bf16"}),
            line(impl="torch", samples=[3], params={"batch": 8, "mask": None, "dtype": "bf16"}),
            "{not json}",
        ]
    )
    parsed = parse(RECORDS, text)
    assert (parsed.environment, parsed.checked) == ({"torch": "2.13.0", "threads": 2}, 2)
    assert {f.params["impl"]: f.samples for f in parsed.measurements} == {"ours": (1.0, 2.5), "torch": (3.0,)}
    assert parsed.measurements[0].params == {"batch": 8, "mask": "null", "dtype": "bf16", "impl": "ours"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (line(samples=[]), "no samples"),
        (line(samples=3.0), "no samples"),
        (line(samples=["fast"]), "no number"),
        (line(samples=[True]), "no number"),
        (line(samples=[math.nan]), "no measurement"),
        (line(samples=[1e151]), "no measurement"),
        (line(unit=None), "no metric and unit"),
        (line()[:-1] + ', "x": ' + "[" * 500 + "]" * 500 + "}", "nested too deeply"),
        (line(params=[1]), "no mapping"),
        (line()[:-8], "cut off"),
        ('{"correctness": [{"case": "causal", "ok": false}]}\n' + line(), "results are wrong.*causal"),
        ('{"correctness": {"ok": false}}\n' + line(), "no list of cases"),
        ('{"correctness": [false]}\n' + line(), "no list of cases"),
        ('{"correctness": [{"ok": 0}]}\n' + line(), "neither true nor false"),
        ('{"correctness": [{"ok": "false"}]}\n' + line(), "neither true nor false"),
        ('{"correctness": [{"case": "causal"}]}\n' + line(), "neither true nor false"),
        ('{"correctness": [{"ok": False}]}\n' + line(), "no JSON"),
        ('{"correctness": [{"ok": fal\n' + line(), "cut off"),
        ("", "no measurements"),
    ],
)
def test_records_that_cannot_be_believed_fail(text, message):
    with pytest.raises(WorkFailed, match=message):
        parse(RECORDS, text)


def test_values_that_no_record_can_have_become_text():
    params = {"big": 10**30, "half": "\ud800", "true": True}
    environment = {"threads": 10**30, "inner": {"nan": math.nan, "\ud800": -(10**30)}}
    parsed = parse(RECORDS, "\n".join([json.dumps({"environment": environment}), line(params=params)]))
    assert parsed.measurements[0].params == {"big": f"{10**30}", "half": "?", "true": True}
    assert parsed.environment == {"threads": f"{10**30}", "inner": {"nan": "nan", "?": f"{-(10**30)}"}}


def test_a_record_behind_a_progress_bar_counts_and_other_text_with_braces_does_not():
    text = f"{line()}\n 50%|##  | 1/2 [00:01<00:01]{line()}\nset {{x}}: {line()[:-8]}\nconfig: {{'metric': 1}}\n"
    more = 'config: {"metric": "accuracy"}\nconfig: {"correctness": "high", "environment": "here"}\n'
    (found,) = parse(RECORDS, text + more).measurements
    assert len(found.samples) == 2 * len(parse(RECORDS, line()).measurements[0].samples)


def test_a_verdict_and_an_environment_behind_a_progress_bar_count():
    assert parse(RECORDS, f'100%|##|{{"environment": {{"threads": 3}}}}\n{line()}').environment == {"threads": 3}
    with pytest.raises(WorkFailed, match="results are wrong"):
        parse(RECORDS, f'100%|##|{{"correctness": [{{"ok": false}}]}}\n{line()}')


def test_what_programs_of_one_run_report_in_two_ways_is_a_doubt(tmp_path):
    environments = ['{"environment": {"torch": "2", "threads": 1}}', '{"environment": {"threads": 8, "os": "x"}}']
    text = "\n".join([environments[0], line(), environments[1], line()])
    assert parse(RECORDS, text).apart == ("threads",)
    (tmp_path / "printed").write_text(text)
    (record,) = printed.read(tmp_path / "printed", "gnn")
    assert record.warnings == ("different environments were reported: threads",)


@pytest.mark.parametrize(("reported", "threads"), [(8, 8), (True, 4), (-1, 4), (10**9, 4), ("8", 4)])
def test_only_a_number_of_threads_is_believed(reported, threads):
    assert threads_of({"threads": reported}, 4) == threads


@given(st.text())
def test_no_output_whatever_crashes_a_parser(text):
    for spec in (FEATGRAPH, RECORDS):
        for whole in (text, '{"metric": ' + text, '{"correctness": ' + text):
            try:
                parse(spec, whole)
            except WorkFailed:
                continue
            raise AssertionError("random text passed for a complete run")


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(["metric", "unit", "samples", "params", "impl"], json_values)))
def test_a_json_line_is_a_good_figure_or_a_clear_failure(data):
    try:
        figures = parse(RECORDS, json.dumps(data)).measurements
    except WorkFailed:
        return
    assert figures[0].metric == data["metric"] and figures[0].unit == data["unit"]
    assert figures[0].samples == tuple(float(s) for s in data["samples"])


@given(st.lists(st.tuples(st.integers(0, 5), st.floats(-1e150, 1e150)), min_size=1))
def test_lines_keep_every_sample_with_its_own_context(runs):
    spec = Parse.model_validate(
        {"context": ["n=(?P<n>.*)"], "values": [{"pattern": "t=(?P<value>.*)", "metric": "t", "unit": "s"}]}
    )
    figures = parse(spec, "".join(f"n={n}\nnoise\nt={t!r}\n" for n, t in runs)).measurements
    assert {f.params["n"]: f.samples for f in figures} == {
        n: tuple(t for m, t in runs if m == n) for n in {n for n, _ in runs}
    }
