"""Benchmark output as numbers: the shapes that papers print, and the ways in which it can be short."""

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


def values(pattern: str, **fields: object) -> Parse:
    return Parse.model_validate({"values": [{"pattern": pattern, "metric": "t", "unit": "s"}], **fields})


def featgraph_output(blocks: int) -> str:
    return "\n".join(
        f"\nnum_col_partitions: {1 << i // 2}\nnum_feat_partitions: {1 + i % 2}\ntime of 5 runs: {i}.5 ms"
        for i in range(blocks)
    )


def line(**data: object) -> str:
    return json.dumps({"metric": "m", "unit": "ms", "samples": [1.0], **data})


def test_context_stays_until_the_next_of_its_kind_and_each_number_is_expected():
    partitions = [(1, 1), (1, 2), (2, 1), (2, 2)]
    assert parse(FEATGRAPH, featgraph_output(4)).measurements == tuple(
        Measurement("spmm", "ms", (n + 0.5,), {"col": col, "feat": feat}) for n, (col, feat) in enumerate(partitions)
    )
    for blocks, message in ((0, "no measurements"), (3, "3 measurements; .* prints 4"), (5, "5 meas.* prints 4")):
        with pytest.raises(WorkFailed, match=message):
            parse(FEATGRAPH, featgraph_output(blocks))


def test_several_metrics_and_parameters_may_stand_in_one_line():
    time = {"pattern": r"length: (?P<n>\d+),.*\(ms\): (?P<value>\S+)", "metric": "time", "unit": "ms"}
    memory = {"pattern": r"memory=(?P<value>[\d.]+)MB", "metric": "memory", "unit": "MB"}
    spec = Parse.model_validate({"values": [time, memory]})
    numbers = parse(spec, "batch_size: 1, length: 32, average_time (ms): 1.25 memory=1410.0MB").measurements
    assert numbers == (Measurement("time", "ms", (1.25,), {"n": 32}), Measurement("memory", "MB", (1410.0,), {}))


def test_repeated_numbers_are_samples_of_one_and_colours_and_redrawn_lines_no_part_of_it():
    spec = values("t=(?P<value>.*)", expect=3)
    assert parse(spec, "t=1\nt=2\nt=3").measurements == (Measurement("t", "s", (1.0, 2.0, 3.0)),)
    coloured = " 10%\r 90%\r\x1b[1;32mt=\x1b[0m4.5\r\n"
    assert parse(values(r"^t=(?P<value>\S+)$"), coloured).measurements[0].samples == (4.5,)


@pytest.mark.parametrize("written", ["nan", "inf", "-inf", "1e999", "fast", "", "1_000", "\uff11"])
def test_what_is_no_finite_number_is_refused(written):
    with pytest.raises(WorkFailed, match="a line of the output holds"):
        parse(values("t=(?P<value>.*)"), f"t={written}")


def test_records_carry_unit_parameters_and_implementation():
    params = {"batch": 8, "mask": None, "dtype": "bf16"}
    text = "\n".join(
        [
            "Using /tmp/torch_extensions as the build folder",
            json.dumps({"environment": {"torch": "2.13.0", "threads": 2}}),
            json.dumps({"correctness": [{"case": "fp32", "ok": True}, {"case": "bf16", "ok": True}]}),
            line(impl="ours", samples=[1, 2.5], params=params),
            line(impl="torch", samples=[3], params=params),
            "{not json}",
        ]
    )
    parsed = parse(RECORDS, text)
    assert (parsed.environment, parsed.checked) == ({"torch": "2.13.0", "threads": 2}, 2)
    assert parsed.measurements == (
        Measurement("m", "ms", (1.0, 2.5), {**params, "mask": "null", "impl": "ours"}),
        Measurement("m", "ms", (3.0,), {**params, "mask": "null", "impl": "torch"}),
    )


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
        ('100%|##|{"correctness": [{"ok": false}]}\n' + line(), "results are wrong"),
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
    assert parse(RECORDS, text + more).measurements == (Measurement("m", "ms", (1.0, 1.0)),)
    assert parse(RECORDS, f'100%|##|{{"environment": {{"threads": 3}}}}\n{line()}').environment == {"threads": 3}


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
            with pytest.raises(WorkFailed):
                parse(spec, whole)


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(["metric", "unit", "samples", "params", "impl"], json_values)))
def test_a_json_line_is_a_good_number_or_a_clear_failure(data):
    try:
        numbers = parse(RECORDS, json.dumps(data)).measurements
    except WorkFailed:
        return
    assert numbers[0].metric == data["metric"] and numbers[0].unit == data["unit"]
    assert numbers[0].samples == tuple(float(s) for s in data["samples"])


@given(st.lists(st.tuples(st.integers(0, 5), st.floats(-1e150, 1e150)), min_size=1))
def test_lines_keep_every_sample_with_its_own_context(runs):
    spec = values("t=(?P<value>.*)", context=["n=(?P<n>.*)"])
    numbers = parse(spec, "".join(f"n={n}\nnoise\nt={t!r}\n" for n, t in runs)).measurements
    assert {f.params["n"]: f.samples for f in numbers} == {
        n: tuple(t for m, t in runs if m == n) for n in {n for n, _ in runs}
    }
