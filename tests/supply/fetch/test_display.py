from __future__ import annotations

import io
import time

from reprokit.supply.fetch.progress import FetchDisplay, Progress, Tally, summary

HALF = Progress(12, 500, 1_200_000_000, 3_400_000_000, 45e6, 48.9, ("torch.whl", "numpy.whl"))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_figures_are_one_line():
    assert summary(HALF) == "12 of 500 files, 1.2 GB of 3.4 GB, 45 MB/s, 0:48 left"
    assert summary(Progress(0, 1, 0, 10, 0.0, None, ())) == "0 of 1 files, 0 B of 10 B"


def test_without_a_terminal_there_are_plain_lines_now_and_then(monkeypatch):
    out, later = io.StringIO(), time.monotonic() + 6
    with FetchDisplay(out, every_s=5) as shown:
        shown.on_progress(HALF)
        shown.notify("torch.whl: mirror: stalled")
        monkeypatch.setattr(time, "monotonic", lambda: later)
        shown.on_progress(HALF)
        shown.on_progress(HALF)
    assert out.getvalue() == f"torch.whl: mirror: stalled\n{summary(HALF)}\n"


def test_a_terminal_shows_figures_and_names_below_what_is_said():
    out = Terminal()
    with FetchDisplay(out) as shown:
        shown.on_progress(HALF)
        shown.notify("[torch.whl] mirror: stalled")
        drawn = shown.render().plain
    assert drawn == f"{summary(HALF)}\n  torch.whl, numpy.whl"
    assert "[torch.whl] mirror: stalled" in out.getvalue()


def test_the_time_left_is_that_of_the_last_seconds_and_unknown_where_nothing_comes():
    tally = Tally(2, 1000)
    tally.at("a", "a.whl", 400)  # left by an earlier run: no rate comes from that
    assert tally.progress(0.0) == Progress(0, 2, 400, 1000, 0.0, None, ("a.whl",))
    tally.got(100)
    tally.at("a", "a.whl", 500)
    assert tally.progress(1.0).left_s is None
    assert tally.progress(5.0) == Progress(0, 2, 500, 1000, 20.0, 25.0, ("a.whl",))
    assert tally.progress(20.0).left_s is None
    tally.done("a", 500)
    assert tally.progress(21.0) == Progress(1, 2, 500, 1000, 0.0, None, ())
    tally.at("b", "b.whl", 300)
    tally.left("b")
    assert tally.progress(22.0).bytes_done == 500
