"""The attention benchmark's records as cells, and the figures of these: what they say, as the same bytes each time."""

from __future__ import annotations

import json
import sys

import pytest

from reprokit.bench import printed
from reprokit.errors import UsageError
from reprokit.results import attention_plots as plots
from reprokit.results import plot_layout
from reprokit.results.attention import Cell, Measured, measured
from reprokit.results.lines import append

CASE = {"device": "cpu", "threads": 1, "batch": 1, "heads": 12, "kv_heads": 12, "seq": 512, "dim": 64,
        "dtype": "float32", "mask": "none", "clock": "thread"}  # fmt: skip
HEAD = [
    {"environment": {"torch": "2.13.0", "processor": "EPYC", "threads": 1, "device": {"name": "cpu"}},
     "time": "2026-11-21T10:00:00Z"},
    {"correctness": []},
    {"metric": "machine.peak", "unit": "GFLOP/s", "samples": [100.0],
     "params": {"device": "cpu", "threads": 1, "dtype": "float32", "how": "avx2 fma"}},
    {"metric": "machine.bandwidth", "unit": "GB/s", "samples": [20.0], "params": {"kind": "copy"}},
    {"metric": "machine.bandwidth", "unit": "GB/s", "samples": [25.0], "params": {"kind": "read"}},
]  # fmt: skip


def lines(change: dict | None = None, **times: float) -> list[dict]:
    """What the benchmark prints for one case, with the milliseconds of each implementation."""
    params = {**CASE, **(change or {})}
    work = {"metric": "fused_attention.work", "unit": "GFLOP", "samples": [0.8], "params": params}
    traffic = {"metric": "fused_attention.traffic", "unit": "MB", "samples": [6.4], "params": params}
    forward = {"metric": "fused_attention.forward", "unit": "ms", "params": params}
    timed = [{**forward, "impl": impl, "samples": [ms * 0.9, ms, ms * 1.2]} for impl, ms in times.items()]
    return [work, traffic, *timed]


@pytest.fixture
def read(tmp_path):
    """`read(lines, ...)`: the records of what was printed."""

    def run(*parts: list[dict]):
        (tmp_path / "o.jsonl").write_text("".join(json.dumps(line) + "\n" for part in parts for line in part))
        return printed.read(tmp_path / "o.jsonl", "fused-attention")

    return run


def test_cells_of_what_was_printed(read):
    alone = lines({"seq": 1024}, ours=40.0)  # it has nothing to be compared with
    result = measured(read(HEAD, lines(**{"ours": 10.0, "ours-packed": 1.0, "sdpa-flash": 30.0, "naive": 25.0}), alone))
    (cell,) = result.cells
    assert (cell.seq, cell.mask, cell.best_other, cell.speedup) == (512, "none", "naive", 2.5)
    assert cell.rate() == pytest.approx(80.0) and cell.intensity == pytest.approx(125.0)
    assert (result.peaks, result.bandwidth) == ({"float32": 100.0}, 25.0)
    assert result.about == "EPYC, 1 thread, torch 2.13.0, medians of CPU time of the thread, 2026-11-21"


@pytest.fixture
def forward(record):
    """`forward("ours", 10.0)`: the record of an implementation's time."""
    return lambda impl, ms, **changes: record(
        metric="fused_attention.forward", params={**CASE, "impl": impl}, samples=(ms,), **changes
    )


@pytest.fixture
def counted(record):
    """The records of a case's work and traffic."""
    return [
        record(metric=f"fused_attention.{name}", unit=unit, params=CASE)
        for name, unit in (("work", "GFLOP"), ("traffic", "MB"))
    ]


def test_a_case_measured_again_counts_as_the_last_time(tmp_path, record, forward, counted):
    ours = [forward("ours", ms, time=f"2026-11-2{day}T00:00:00Z") for day, ms in enumerate((10.0, 5.0))]
    append(tmp_path, "records.jsonl", [*ours, forward("sdpa", 20.0), *counted])
    assert [cell.speedup for cell in measured(printed.read(tmp_path / "records.jsonl", "x")).cells] == [4.0]
    assert measured([record(params={})]).cells == []


@pytest.mark.parametrize(
    "change",
    [{"cpu": "Xeon"}, {"variant": "cuda"}, {"image_digest": "sha256:3d"}, {"node": "b"}, {"commit": "ab" * 20}],
)
def test_times_of_other_conditions_are_not_compared(forward, counted, change):
    mine = [*counted, forward("ours", 10.0), forward("sdpa", 20.0)]
    theirs = forward("sdpa", 1.0, time="2026-01-01T00:00:00Z", **change)
    both = measured([theirs, *mine, theirs])
    assert [cell.speedup for cell in both.cells] == [2.0]
    assert both.about == f"{measured(mine).about}; 2 records of other conditions are not shown"


def test_cases_of_other_heads_or_threads_are_not_one_line(read):
    times = {"ours": 1.0, "naive": 2.0}
    records = read(HEAD, lines({"heads": 1}, **times), lines({"seq": 64}, **times), lines(ours=1.0, naive=4.0))
    assert [cell.speedup for cell in measured(records).cells] == [2.0, 4.0]


def test_numbers_in_other_units_are_not_taken_for_ours(read):
    every = [*HEAD, *lines(ours=10.0, naive=25.0)]
    for number in (2, 4, 5, 6, 7, 8):  # the other is the lower bandwidth
        result = measured(read([{**each, "unit": "TB"} if at == number else each for at, each in enumerate(every)]))
        assert (len(result.cells), len(result.peaks), result.bandwidth) != (1, 1, 25.0), every[number]


def test_the_clocks_of_a_device_are_not_in_its_name(read):
    device = {"name": "H100", "driver": "570", "clocks": {"sm": "345"}}
    first = read([{"environment": {"device": device}}], lines(ours=1.0))[0]
    assert first.clocks == {"sm": "345"} and first.environment["device"] == {"name": "H100", "driver": "570"}


def test_what_is_neither_records_nor_output_is_refused(tmp_path):
    for content in ("", "no json", '{"environment": {}}\n'):
        (tmp_path / "x.jsonl").write_text(content)
        with pytest.raises(UsageError, match="neither records nor a benchmark's output"):
            printed.read(tmp_path / "x.jsonl", "x")
    for file, reason in ((tmp_path / "missing.jsonl", "No such file"), (tmp_path, "Is a directory$")):
        with pytest.raises(UsageError, match=f"the records cannot be read: {reason}"):
            printed.read(file, "x")


MASKS = tuple(plot_layout.STYLES)


def cells(speedup: float = 2.0, batch: int = 1) -> list[Cell]:
    """Ours takes a millisecond a GFLOP, the others `speedup` times as long, naive twice that."""
    return [
        Cell(batch, seq, dtype, mask, gflop, gflop, {"ours": gflop, "sdpa": speedup * gflop, "naive": 9 * gflop})
        for dtype in plot_layout.DTYPES
        for mask in MASKS
        for seq in (16, 384, 2048)
        for gflop in (seq / 100,)
    ]


def of_machine(drawn: list[Cell]) -> Measured:
    return Measured(drawn, {"float32": 1250.0, "bfloat16": 2000.0}, 30.0, "EPYC, 1 thread, 2026-11-21")


@pytest.fixture
def drawing():
    matplotlib = pytest.importorskip("matplotlib", reason="pip install .[results]")
    matplotlib.use("agg")
    with matplotlib.rc_context(plot_layout.SETTINGS):
        yield
    matplotlib.pyplot.close("all")


def texts(figure) -> list[str]:
    return [text.get_text() for text in figure.texts]


@pytest.mark.usefixtures("drawing")
@pytest.mark.slow
def test_the_speedup_has_a_panel_a_dtype_with_every_line_named_once():
    figure = plots.speedup(cells(2.0), 1, "EPYC")
    title, what, about = texts(figure)
    assert title == "Faster in every case of batch 1: 2x to 2x, 2x in the median"
    assert "naive matmul" in what and about == "EPYC"
    assert [axes.get_title("left") for axes in figure.axes] == ["fp32", "bf16", "fp16"]
    for axes in figure.axes:
        labels = [text.get_text() for text in axes.texts if text.get_text() != "slower"]
        assert sorted(labels) == sorted(name for _, _, name in plot_layout.STYLES.values())
        drawn = [line.get_ydata() for line in axes.lines if len(line.get_xdata()) == 3]
        assert len(drawn) == len(MASKS) and all(value == 2.0 for line in drawn for value in line)
    slow = [Cell(1, 64, "float32", "none", 1.0, 1.0, {"ours": 4.0, "flex": 2.0}), *cells(3.0)]
    some = f"Faster in {len(slow) - 1} of {len(slow)} cases of batch 8: "
    assert texts(plots.speedup(slow, 8, ""))[0] == some + "up to 3x, 3x in the median, 0.5x at worst"


@pytest.mark.slow
@pytest.mark.usefixtures("drawing")
def test_only_dtypes_with_a_peak_have_a_roof():
    figure = plots.roofline(of_machine(cells()))
    first, second = texts(figure)[:2]
    assert first == "Of the raw peak, dense attention reaches 80 % in fp32, 50 % in bf16"
    assert second.startswith("The fastest alternatives reach 40 % in fp32, 25 % in bf16.")
    assert [axes.get_title("left") for axes in figure.axes] == ["fp32", "bf16"]
    roof = figure.axes[0].lines[0]
    assert list(roof.get_ydata()[1:]) == [1250.0, 1250.0]
    assert roof.get_ydata()[0] == pytest.approx(30 * roof.get_xdata()[0])


@pytest.mark.usefixtures("drawing")
@pytest.mark.slow
def test_files_are_the_same_each_time():
    both = of_machine([cell for cell in cells(2.0) + cells(3.0, batch=8) if cell.dtype == "float32"])
    files = plots.draw(both)
    stems = ("speedup-batch-1", "speedup-batch-8", "roofline")
    assert list(files) == [f"{stem}.{kind}" for stem in stems for kind in ("png", "svg")]
    assert files == plots.draw(both)
    assert b"Faster in every case of batch 8" in files["speedup-batch-8.svg"]  # text stays text


def test_nothing_to_draw_and_nothing_to_draw_with(monkeypatch):
    with pytest.raises(UsageError, match="there are no times of the attention benchmark"):
        plots.draw(Measured([]))
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UsageError, match="plots need matplotlib") as failure:
        plots.draw(of_machine(cells()))
    assert "[results]" in failure.value.hint


def test_names_are_kept_apart_and_near():
    assert plot_layout.apart([10.0, 50.0], 5, 0, 100) == [10.0, 50.0]
    assert plot_layout.apart([50.0, 50.0, 50.0], 10, 0, 100) == [40.0, 50.0, 60.0]
    assert plot_layout.apart([99.0] * 8, 10, 0, 100) == [25.0 + 10 * i for i in range(8)]
    assert plot_layout.apart([1.0, 2.0], 10, 0, 100) == [5.0, 15.0]
