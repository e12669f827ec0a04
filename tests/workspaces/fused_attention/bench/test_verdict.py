"""The verdict on what must hold, from records whose numbers are known."""

from __future__ import annotations

import json

import pytest
from fused_attention import bench
from fused_attention.bench import cases, records, verdict

pytestmark = pytest.mark.compiler


def params(**changes):
    return {"device": "cpu", "threads": 1, "batch": 1, "heads": 12, "kv_heads": 12, "seq": 1024, "dim": 64,
            "dtype": "float32", "mask": "none", **changes}  # fmt: skip


def record(metric, value, impl=None, **changes):
    found = {"metric": metric, "unit": "", "median": value, "samples": [value], "params": params(**changes)}
    return {**found, "impl": impl} if impl else found


def cell(ours, *, peak_share=0.8, work=1.0, **others_and_changes):
    """One case: ours takes so many milliseconds, the others as named."""
    names = {"sdpa", "naive", "flex", "packed"}
    changes = {name: value for name, value in others_and_changes.items() if name not in names}
    found = [{**record("fused_attention.forward", ours, "ours", **changes), "peak_share": peak_share}]
    for name in names & set(others_and_changes):
        impl = {"sdpa": "sdpa-flash", "packed": "ours-packed"}.get(name, name)
        found.append(record("fused_attention.forward", others_and_changes[name], impl, **changes))
    return [*found, record("fused_attention.work", work, **changes)]


def rows(*found):
    file = records.File(json.dumps(line) + "\n" for part in found for line in part)
    return {row.need.case: row for row in verdict.rows(file)}


def test_the_worst_cell_decides_and_is_named():
    found = rows(cell(1.0, sdpa=3.0, naive=2.5), cell(1.0, sdpa=2.0, flex=1.8, seq=512), cell(1.0, sdpa=9.0, seq=256))
    row = found["dense fp32, seq >= 256"]
    assert row.worst == (1.8, "float32 none, batch 1, seq 512, against flex (at the raw peak: 2.25)")
    assert (row.count, row.holds) == (3, False)
    assert found["no cell of the grid below"].holds
    assert rows(cell(1.0, sdpa=2.0))["dense fp32, seq >= 256"].holds


def test_what_was_not_measured_does_not_hold():
    found = rows(cell(1.0, sdpa=5.0))
    assert found["dense bf16, seq >= 256"].worst is None and not found["dense bf16, seq >= 256"].holds
    assert "| not measured |" in verdict.markdown(list(found.values()))


def test_fp16_is_against_sdpa_and_packed_is_its_own_row():
    found = rows(
        cell(1.0, sdpa=5.0, naive=0.5, dtype="float16"),
        cell(1.0, packed=0.5, sdpa=2.0, mask="padding", seq=128),
    )
    assert found["fp16, every seq and mask (against SDPA)"].worst[0] == 5.0
    assert found["no cell of the grid below"].worst[0] == 0.5
    assert found["padded batch, 60 % full, as a mask"].worst[0] == 2.0
    assert found["padded batch, 60 % full, packed"].worst[0] == 4.0


def test_masked_time_is_held_against_its_share_of_dense_time():
    found = rows(cell(10.0, sdpa=20.0, work=100.0), cell(1.5, sdpa=20.0, work=12.0, mask="window"))
    row = found["time / (share x dense), seq 1024: window, Longformer, BigBird, causal"]
    assert row.worst[0] == pytest.approx(1.25) and row.holds
    assert found["time / (share x dense), seq 1024: strided, dilated"].worst is None


def test_threads_errors_and_peak():
    scaling = [
        {**record("fused_attention.scaling", 9.0, "ours", threads=1), "samples": [9.0, 8.0, 12.0]},
        {**record("fused_attention.scaling", 9.0, "ours", threads=2), "samples": [5.0, 4.0, 20.0]},
        {**record("fused_attention.scaling", 9.0, "ours", threads=2), "samples": [6.0]},
    ]
    errors = [
        record("fused_attention.rms_error", value, impl, seq=seq)
        for impl, values in (("ours", (3.0, 4.0)), ("sdpa-flash", (5.0, 5.0)))
        for seq, value in zip((16, 32), values, strict=True)
    ]
    largest = [record("fused_attention.max_error", value, impl) for impl, value in (("ours", 3.0), ("sdpa-flash", 2.0))]
    found = rows(scaling, errors, largest, cell(1.0, sdpa=2.0, peak_share=0.7), cell(1.0, peak_share=0.9, seq=2048))
    assert found["two threads, times as fast as one"].worst == (2.0, "float32 none, batch 1, seq 1024")
    assert found["root mean square error / SDPA's"].worst[0] == pytest.approx((25 / 50) ** 0.5)
    assert found["largest error / SDPA's"].worst == (1.5, "float32 none")
    assert not found["largest error / SDPA's"].holds
    share = found["share of the raw peak, dense, seq >= 1024"]
    assert share.worst == (0.7, "float32 none, batch 1, seq 1024") and not share.holds


def test_a_nan_does_not_hold():
    row = rows(cell(float("nan"), sdpa=2.0), cell(1.0, sdpa=9.0, seq=512))["dense fp32, seq >= 256"]
    assert not row.holds and row.worst[0] != row.worst[0]


def test_every_cell_of_issue_4s_grid_is_judged():
    """A file of the whole grid leaves no row of times without values."""
    grid = cases.grid(cases.BATCHES, 12, cases.SEQS, 64, list(cases.DTYPES), cases.MASKS)
    changes = [{name: case.params()[name] for name in ("batch", "seq", "dtype", "mask")} for case in grid]
    found = rows(*(cell(1.0, sdpa=2.0, packed=1.0, **change) for change in changes))
    times = [row for case, row in found.items() if "threads" not in case and "error" not in case]
    assert all(row.count for row in times)
    assert found["no cell of the grid below"].count == len(grid) == 3 * 3 * 10 * 11


def test_the_command_exits_by_the_verdict(capsys, tmp_path):
    file = tmp_path / "out.jsonl"
    about = {"environment": {"torch": "2.13.0"}}
    file.write_text("".join(json.dumps(line) + "\n" for line in [about, *cell(1.0, sdpa=9.0)]))
    assert bench.main(["--verdict", str(file)]) == 1
    assert "| dense fp32, seq >= 256 " in capsys.readouterr().out
    assert bench.main(["--verdict", str(tmp_path / "missing")]) == 1
    assert "cannot be judged: [Errno 2]" in capsys.readouterr().err
    (tmp_path / "other.txt").write_text("something else\n")
    assert bench.main(["--verdict", str(tmp_path / "other.txt")]) == 1
    assert "it holds no records of this benchmark" in capsys.readouterr().err
