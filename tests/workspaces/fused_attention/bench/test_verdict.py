"""The verdict on the requirements, from records whose numbers are known and from the checked-in table."""

from __future__ import annotations

import json

import pytest
from fused_attention import bench
from fused_attention.bench import cases, records, verdict

from tests.support.paths import ROOT

SPEED = "times as fast as the fastest rival"
PACKED = "the same, packed"
PEAK = "share of the raw peak, dense, seq >= 512"
KEPT = "time / time of the kept pairs, masked, seq >= 512"


def params(**changes):
    return {"direction": "forward", "device": "cpu", "threads": 1, "batch": 1, "heads": 12, "kv_heads": 12, "seq": 1024,
            "dim": 64, "dtype": "float32", "mask": "none", **changes}  # fmt: skip


def record(metric, value, impl=None, **changes):
    found = {"metric": metric, "unit": "", "median": value, "samples": [value], "params": params(**changes)}
    return {**found, "impl": impl} if impl else found


def cell(ours, *, peak_share=0.8, work=1.0, **others_and_changes):
    """One case: the milliseconds of ours and of the named others."""
    names = {"sdpa", "naive", "flex", "packed"}
    changes = {name: value for name, value in others_and_changes.items() if name not in names}
    metric = records.TIMES[changes.get("direction", "forward")]
    found = [{**record(metric, ours, "ours", **changes), "peak_share": peak_share}]
    for name in sorted(names & set(others_and_changes)):
        impl = {"sdpa": "sdpa-flash", "packed": "ours-packed"}.get(name, name)
        found.append(record(metric, others_and_changes[name], impl, **changes))
    return [*found, record("fused_attention.work", work, **changes)]


def rows(*found):
    file = records.File(line for part in found for line in part)
    return {row.requirement.name: row for row in verdict.rows(file)}


def test_the_worst_cell_comes_first_and_failing_ones_are_named():
    found = rows(cell(1.0, sdpa=3.0, naive=2.5), cell(1.0, sdpa=2.0, flex=0.9, seq=512), cell(1.0, sdpa=9.0, seq=256))
    row = found[SPEED]
    assert row.values[0] == (0.9, "float32 none, batch 1, seq 512, against flex")
    assert (len(row.values), len(row.failing), row.holds) == (3, 1, False)
    assert "- float32 none, batch 1, seq 512, against flex: 0.900" in verdict.markdown(list(found.values()))
    assert rows(cell(1.0, sdpa=2.0))[SPEED].holds


def test_a_backward_pass_has_rows_of_its_own():
    judged = rows(cell(1.0, sdpa=2.0), cell(1.0, sdpa=0.9, direction="backward", peak_share=0.5))
    assert (judged[SPEED].holds, judged[PEAK].holds) == (True, True)
    assert judged["backward: " + SPEED].failing == [
        (0.9, "float32 none, batch 1, seq 1024, backward, against sdpa-flash")
    ]
    assert judged["backward: " + PEAK].failing == [(0.5, "float32 none, batch 1, seq 1024, backward")]


def test_packed_is_its_own_row_and_what_was_not_measured_does_not_hold():
    judged = rows(cell(1.0, packed=0.5, sdpa=2.0, mask="padding", seq=128))
    assert (judged[SPEED].values[0][0], judged[PACKED].values[0][0]) == (2.0, 4.0)
    judged = rows(cell(1.0, sdpa=5.0))
    assert not judged[PACKED].values and not judged[PACKED].holds
    assert "| not measured " in verdict.markdown(list(judged.values()))
    row = rows(cell(float("nan"), sdpa=2.0), cell(1.0, sdpa=9.0, seq=512))[SPEED]
    assert not row.holds and row.values[0][0] != row.values[0][0]


def test_masked_time_is_compared_with_its_share_of_dense_time():
    found = rows(
        cell(10.0, sdpa=20.0, work=100.0),
        cell(1.5, sdpa=20.0, work=12.0, mask="window"),
        cell(1.6, sdpa=20.0, work=10.0, mask="strided"),
        # Short cells are not compared.
        *[cell(9.0, work=100.0 if mask == "none" else 1.0, mask=mask, seq=64) for mask in ("none", "window")],
    )
    assert [value for value, _ in found[KEPT].values] == [pytest.approx(1.6), pytest.approx(1.25)]
    assert found[KEPT].failing == found[KEPT].values[:1]


def test_errors_and_peak():
    errors = [
        record("fused_attention.rms_error", value, impl, seq=seq)
        for impl, values in (("ours", (3.0, 4.0)), ("sdpa-flash", (5.0, 5.0)))
        for seq, value in zip((16, 32), values, strict=True)
    ]
    largest = [record("fused_attention.max_error", value, impl) for impl, value in (("ours", 3.0), ("sdpa-flash", 2.0))]
    short = cell(1.0, peak_share=0.1, seq=256)
    found = rows(errors, largest, cell(1.0, sdpa=2.0, peak_share=0.7), cell(1.0, peak_share=0.9, seq=512), short)
    assert found["root mean square error / SDPA's"].values[0][0] == pytest.approx((25 / 50) ** 0.5)
    assert found["largest error / SDPA's"].failing == [(1.5, "float32 none")]
    assert found[PEAK].failing == [(0.7, "float32 none, batch 1, seq 1024")] and len(found[PEAK].values) == 2


def test_every_cell_of_the_grid_is_judged():
    grid = cases.grid(cases.BATCHES, 12, cases.SEQS, 64, list(cases.DTYPES), cases.MASKS)
    changes = [{name: case.params()[name] for name in ("batch", "seq", "dtype", "mask")} for case in grid]
    found = rows(*(cell(1.0, sdpa=2.0, packed=1.0, **change) for change in changes))
    assert len(found[SPEED].values) == len(grid) == 3 * 3 * 10 * 11
    long = sum(seq >= 512 for seq in cases.SEQS)
    assert (len(found[PEAK].values), len(found[KEPT].values)) == (3 * 3 * long, 3 * 3 * long * 10)


def test_the_command_exits_by_the_verdict(capsys, tmp_path):
    (tmp_path / "out.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in [{"environment": {"torch": "2.13.0"}}, *cell(1.0, sdpa=9.0)])
    )
    for name in ("other.txt", "other.csv"):
        (tmp_path / name).write_text("something else\n")
    for name, message in (
        ("out.jsonl", f"| {SPEED} "),
        ("missing", "cannot be judged: [Errno 2]"),
        ("other.txt", "it holds no records of this benchmark"),
        ("other.csv", "it is no table of this benchmark"),
    ):
        assert bench.main(["--verdict", str(tmp_path / name)]) == 1
        captured = capsys.readouterr()
        assert message in (captured.out if name == "out.jsonl" else captured.err)


def test_the_compact_table_gives_the_same_verdict(capsys, tmp_path):
    lines = [
        {"environment": {"torch": "2.13.0", "device": {"name": "cpu"}}},
        *cell(10.0, sdpa=25.0, flex=12.5, work=100.0),
        *cell(1.5, sdpa=20.0, packed=1.0, work=12.0, mask="padding", peak_share=0.5),
        *cell(1.5, sdpa=1.0, work=12.0, direction="backward"),
        record("fused_attention.traffic", 8.0),
        *(record("fused_attention.max_error", value, impl) for impl, value in (("ours", 3.0), ("sdpa-flash", 2.0))),
    ]
    raw, table = tmp_path / "raw.jsonl", tmp_path / "table.csv"
    raw.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert bench.main(["--summary", str(raw)]) == 0
    table.write_text(capsys.readouterr().out)
    verdicts = []
    for path in (raw, table):
        assert bench.main(["--verdict", str(path)]) == 1
        verdicts.append(capsys.readouterr().out)
    assert verdicts[0] == verdicts[1] and "| 2     | 1 " not in verdicts[0].splitlines()[4]


def test_the_checked_in_verdict_is_that_of_the_checked_in_table(capsys):
    folder = ROOT / "docs" / "attention"
    bench.main(["--verdict", str(folder / "cpu.csv")])
    assert capsys.readouterr().out == (folder / "verdict.md").read_text()


def test_a_gpu_is_not_judged_by_the_limits_for_cpus(capsys):
    table = ROOT / "docs" / "attention" / "h200.csv"
    assert bench.main(["--verdict", str(table)]) == 1
    text = capsys.readouterr().out
    assert "NVIDIA H200" in text and "Not judged: it was measured on a GPU" in text and SPEED not in text
