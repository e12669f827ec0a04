"""The figures: what they say, that they are written, and that the same records give the same bytes."""

from __future__ import annotations

import sys

import pytest

from reprokit.errors import UsageError
from reprokit.results import attention_plots as plots
from reprokit.results import plot_layout
from reprokit.results.attention import Cell, Measured

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


def measured(found: list[Cell]) -> Measured:
    return Measured(found, {"float32": 1250.0, "bfloat16": 2000.0}, 30.0, "EPYC, 1 thread, 2026-11-21")


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
def test_titles_say_what_was_found():
    finding, what, about = texts(plots.speedup(cells(2.0), 1, "EPYC"))
    assert finding == "Faster in every case of batch 1: 2x to 2x, 2x in the median"
    assert "naive matmul" in what and about == "EPYC"
    slow = [Cell(1, 64, "float32", "none", 1.0, 1.0, {"ours": 4.0, "flex": 2.0}), *cells(3.0)]
    title = texts(plots.speedup(slow, 8, ""))[0]
    some = f"Faster in {len(slow) - 1} of {len(slow)} cases of batch 8: "
    assert title == some + "up to 3x, 3x in the median, 0.5x at worst"
    roof = texts(plots.roofline(measured(cells(2.0))))
    assert roof[0] == "Of the raw peak, dense attention reaches 80 % in fp32, 50 % in bf16"
    assert roof[1].startswith("The fastest alternatives reach 40 % in fp32, 25 % in bf16.")


@pytest.mark.slow
@pytest.mark.usefixtures("drawing")
def test_a_panel_a_dtype_with_every_line_named_once():
    figure = plots.speedup(cells(), 1, "")
    names = sorted(name for _, _, name in plot_layout.STYLES.values())
    assert [axes.get_title("left") for axes in figure.axes] == ["fp32", "bf16", "fp16"]
    for axes in figure.axes:
        labels = [text.get_text() for text in axes.texts if text.get_text() != "slower"]
        assert sorted(labels) == names
        drawn = [line.get_ydata() for line in axes.lines if len(line.get_xdata()) == 3]
        assert len(drawn) == len(MASKS) and all(value == 2.0 for line in drawn for value in line)


@pytest.mark.slow
@pytest.mark.usefixtures("drawing")
def test_only_dtypes_with_a_peak_have_a_roof():
    figure = plots.roofline(measured(cells()))
    assert [axes.get_title("left") for axes in figure.axes] == ["fp32", "bf16"]
    roof = figure.axes[0].lines[0]
    assert list(roof.get_ydata()[1:]) == [1250.0, 1250.0]
    assert roof.get_ydata()[0] == pytest.approx(30 * roof.get_xdata()[0])


@pytest.mark.usefixtures("drawing")
@pytest.mark.slow
def test_files_are_the_same_each_time():
    found = measured(cells(2.0) + cells(3.0, batch=8))
    files = plots.draw(found)
    assert list(files) == [
        f"{stem}.{kind}" for stem in ("speedup-batch-1", "speedup-batch-8", "roofline") for kind in ("png", "svg")
    ]
    assert files == plots.draw(found)
    assert b"Faster in every case of batch 8" in files["speedup-batch-8.svg"]  # text stays text


def test_nothing_to_draw_and_nothing_to_draw_with(monkeypatch):
    with pytest.raises(UsageError, match="there are no times of the attention benchmark"):
        plots.draw(Measured([]))
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UsageError, match="plots need matplotlib") as failure:
        plots.draw(measured(cells()))
    assert "[results]" in failure.value.hint
