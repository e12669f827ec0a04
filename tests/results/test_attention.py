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
        record(metric="fused_attention.work", params=CASE, samples=(1.0,)),
        record(metric="fused_attention.traffic", params=CASE, samples=(1.0,)),
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
