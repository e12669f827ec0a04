"""Progress of steps: in a log a few lines, at a terminal one line that is redrawn."""

from __future__ import annotations

import io

import pytest

from reprokit.display import ClockDisplay, StepDisplay

STEPS = [f"x: receiving objects {percent} %, 3 MB" for percent in range(0, 101, 10)]
LINES = ["locking x:cpu", "x: fetching 0123", *STEPS, *(f"pulled {n} layers" for n in range(9)), "conda: solving"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERM", "xterm")


def test_a_log_has_no_line_for_each_tenth():
    stream = io.StringIO()
    with StepDisplay(stream) as shown:
        for line in LINES:
            shown.notify(line)
    assert stream.getvalue().splitlines() == ["locking x:cpu", "x: fetching 0123", "conda: solving"]


def test_a_log_still_shows_that_it_goes_on():
    stream = io.StringIO()
    with StepDisplay(stream, every_s=0) as shown:
        for line in LINES:
            shown.notify(line)
    assert "x: receiving objects 50 %, 3 MB" in stream.getvalue()


def test_a_terminal_shows_how_far_the_step_is_in_one_line():
    stream = Terminal()
    with StepDisplay(stream) as shown:
        for line in LINES[:8]:
            shown.notify(line)
        assert str(shown.render()) == f"{LINES[7]}  0:00"
        shown.notify("conda: solving \x1b[2J")
        assert str(shown.render()).startswith("conda: solving")
    kept = [line for line in stream.getvalue().splitlines() if "receiving" in line and not line.startswith("\x1b")]
    assert kept == [] and "\x1b[2J" not in stream.getvalue()


def test_a_clock_stands_before_the_text_with_what_the_work_took_before(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    with ClockDisplay(Terminal(), "[2/5] x:cpu forward: " + "long " * 20, 284.0) as shown:
        text = shown.render()
    assert text.plain.startswith("0:00 of about 4:44  [2/5] x:cpu forward: long") and text.no_wrap
    assert ClockDisplay(Terminal(), "asking").render().plain == "0:00  asking"
