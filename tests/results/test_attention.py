"""The attention benchmark's records as cells, from records and from what the benchmark itself printed."""

from __future__ import annotations

import json

import pytest

from reprokit.bench import printed
from reprokit.errors import UsageError
from reprokit.results.attention import measured
from reprokit.results.lines import append

CASE = {"device": "cpu", "threads": 1, "batch": 1, "heads": 12, "kv_heads": 12, "seq": 512, "dim": 64,
        "dtype": "float32", "mask": "none", "clock": "thread"}  # fmt: skip


def lines(*changes: dict, times: dict[str, float]) -> list[dict]:
    """What the benchmark prints for one case."""
    params = {**CASE, **{key: value for change in changes for key, value in change.items()}}
    found = [
        {"metric": "fused_attention.work", "unit": "GFLOP", "samples": [0.8], "params": params},
        {"metric": "fused_attention.traffic", "unit": "MB", "samples": [6.4], "params": params},
    ]
    return found + [
        {"metric": "fused_attention.forward", "impl": name, "unit": "ms", "samples": [ms * 0.9, ms, ms * 1.2],
         "params": params}
        for name, ms in times.items()
    ]  # fmt: skip


HEAD = [
    {"environment": {"torch": "2.13.0", "processor": "EPYC", "threads": 1, "device": {"name": "cpu"}},
     "time": "2026-11-21T10:00:00Z"},
    {"correctness": []},
    {"metric": "machine.peak", "unit": "GFLOP/s", "samples": [100.0],
     "params": {"device": "cpu", "threads": 1, "dtype": "float32", "how": "avx2 fma"}},
    {"metric": "machine.bandwidth", "unit": "GB/s", "samples": [20.0], "params": {"kind": "copy"}},
    {"metric": "machine.bandwidth", "unit": "GB/s", "samples": [25.0], "params": {"kind": "read"}},
]  # fmt: skip


def write(path, *parts: list[dict]):
    path.write_text("".join(json.dumps(line) + "\n" for part in parts for line in part))
    return path


def test_cells_of_what_was_printed(tmp_path):
    file = write(
        tmp_path / "out.jsonl", HEAD,
        lines(times={"ours": 10.0, "ours-packed": 1.0, "sdpa-flash": 30.0, "naive": 25.0}),
        lines({"seq": 1024}, times={"ours": 40.0}),
    )  # fmt: skip
    found = measured(printed.read(file, "fused-attention"))
    (cell,) = found.cells  # the other has nothing to be compared with
    assert (cell.seq, cell.mask, cell.best_other, cell.speedup) == (512, "none", "naive", 2.5)
    assert cell.rate() == pytest.approx(80.0) and cell.intensity == pytest.approx(125.0)
    assert (found.peaks, found.bandwidth) == ({"float32": 100.0}, 25.0)
    assert found.about == "EPYC, 1 thread, torch 2.13.0, medians of CPU time of the thread, 2026-11-21"


def test_a_case_measured_again_counts_as_the_last_time(tmp_path, record):
    first, again = ({"impl": "ours", **CASE}, 10.0), ({"impl": "ours", **CASE}, 5.0)
    records = [
        record(metric="fused_attention.forward", params=params, samples=(ms,), time=f"2026-11-2{day}T00:00:00Z")
        for day, (params, ms) in enumerate((first, again))
    ]
    records += [
        record(metric="fused_attention.forward", params={**CASE, "impl": "sdpa"}, samples=(20.0,)),
        record(metric="fused_attention.work", unit="GFLOP", params=CASE, samples=(1.0,)),
        record(metric="fused_attention.traffic", unit="MB", params=CASE, samples=(1.0,)),
    ]
    append(tmp_path, "records.jsonl", records)
    (cell,) = measured(printed.read(tmp_path / "records.jsonl", "x")).cells
    assert cell.speedup == 4.0


def test_nothing_of_attention_has_no_cells(record):
    assert measured([record(params={})]).cells == []


@pytest.mark.parametrize("content", ["", "no json", '{"environment": {}}\n'])
def test_a_file_of_neither_is_refused(tmp_path, content):
    (tmp_path / "x.jsonl").write_text(content)
    with pytest.raises(UsageError, match="neither records nor a benchmark's output"):
        printed.read(tmp_path / "x.jsonl", "x")
    with pytest.raises(UsageError, match="cannot be read"):
        printed.read(tmp_path / "missing.jsonl", "x")


@pytest.mark.parametrize(
    "change",
    [{"cpu": "Xeon"}, {"variant": "cuda"}, {"image_digest": "sha256:3d"}, {"node": "b"}, {"commit": "ab" * 20}],
)
def test_times_of_other_conditions_are_not_compared(record, change):
    found = {
        **{
            name: {"metric": f"fused_attention.{name}", "unit": unit, "params": CASE}
            for name, unit in (("work", "GFLOP"), ("traffic", "MB"))
        },
        **{
            impl: {"metric": "fused_attention.forward", "params": {**CASE, "impl": impl}, "samples": (ms,)}
            for impl, ms in (("ours", 10.0), ("sdpa", 20.0))
        },
    }
    old = {"time": "2026-01-01T00:00:00Z", **change}
    mine = [record(**each) for each in found.values()]
    theirs = record(**found["sdpa"] | {"samples": (1.0,)} | old)
    both = measured([theirs, *mine, theirs])
    assert [cell.speedup for cell in both.cells] == [2.0]
    assert both.about.endswith("; 2 records of other conditions are not shown")
    assert measured(mine).about == both.about.partition(";")[0]


def test_cases_of_other_heads_or_threads_are_not_one_line(tmp_path):
    times = {"ours": 1.0, "naive": 2.0}
    file = write(tmp_path / "o.jsonl", HEAD, lines({"heads": 1}, times=times), lines({"seq": 64}, times=times),
                 lines(times={"ours": 1.0, "naive": 4.0}))  # fmt: skip
    assert [cell.speedup for cell in measured(printed.read(file, "x")).cells] == [2.0, 4.0]


def test_numbers_in_other_units_are_not_taken_for_ours(tmp_path):
    found = [*HEAD, *lines(times={"ours": 10.0, "naive": 25.0})]
    for number in (2, 4, 5, 6, 7, 8):  # the other is the lower bandwidth
        other = [{**each, "unit": "TB"} if at == number else each for at, each in enumerate(found)]
        result = measured(printed.read(write(tmp_path / "o.jsonl", other), "x"))
        assert (len(result.cells), len(result.peaks), result.bandwidth) != (1, 1, 25.0), found[number]


def test_the_clocks_of_a_device_are_not_in_its_name(tmp_path):
    device = {"name": "H100", "driver": "570", "clocks": {"sm": "345"}}
    file = write(tmp_path / "o.jsonl", [{"environment": {"device": device}}], lines(times={"ours": 1.0}))
    record = printed.read(file, "x")[0]
    assert record.clocks == {"sm": "345"} and record.environment["device"] == {"name": "H100", "driver": "570"}
