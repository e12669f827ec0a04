"""What prints to a terminal, and is typed there: progress of steps, tables, numbers, consent."""

from __future__ import annotations

import contextlib
import io
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from reprokit import consent, tables
from reprokit.display import ClockDisplay, StepDisplay, notify, progress, status
from reprokit.errors import UsageError
from reprokit.formatting import Meter, binary_size, clock, counted, parse_size, size
from reprokit.results.tables import ReportTable

STEPS = [f"x: receiving objects {percent} %, 3 MB" for percent in range(0, 101, 10)]
LINES = ["locking x:cpu", "x: fetching 0123", *STEPS, *(f"pulled {n} layers" for n in range(9)), "conda: solving"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERM", "xterm")


def test_a_log_has_no_line_for_each_tenth_but_shows_that_it_goes_on():
    for every_s, step in (({}, False), ({"every_s": 0}, True)):
        stream = io.StringIO()
        with StepDisplay(stream, **every_s) as shown:
            for line in LINES:
                shown.notify(line)
        lines = stream.getvalue().splitlines()
        assert ("x: receiving objects 50 %, 3 MB" in lines) is step
        assert step or lines == ["locking x:cpu", "x: fetching 0123", "conda: solving"]


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


WIDTHS = (40, 80, 110, 200)
CONTAINERS = ("NAME", "RECIPE", "STATE", "PORTS", "MOUNTS")
ROWS = [
    ("reprokit-fused-attention-cpu", "fused-attention:cpu", "running", "127.0.0.1:8888->8888", "/home/u/" + "d/" * 30),
    ("reprokit-taco-cpu", "taco:cpu", "exited, another user's", "", ""),
]
KEYS = ("seq", "dtype", "mask", "kv_heads")
IMPLEMENTATIONS = tuple(f"implementation-{i}" for i in range(5))
MEASURED = ReportTable(
    "fused-attention:cpu forward: forward [ms]",
    "AMD EPYC, 2 threads",
    (*KEYS, *IMPLEMENTATIONS),
    tuple((str(seq), "bfloat16", mask, "12", *["0.4321 (0.4123..0.4567)"] * 5) for seq in (128, 512) for mask in "ab"),
    ("in doubt: the image is unverified",),
    keys=len(KEYS),
)


@pytest.fixture
def terminal(monkeypatch, capsys):
    """`terminal(80, print)`: the lines printed at a terminal of 80 columns; 0 stands for a pipe."""

    def lines(columns, print_):
        monkeypatch.setenv("NO_COLOR", "1")
        monkeypatch.setenv("TERM", "dumb")
        monkeypatch.setattr("sys.stdout.isatty", lambda: bool(columns), raising=False)
        monkeypatch.setattr("shutil.get_terminal_size", lambda **_: os.terminal_size((columns or 80, 24)))
        print_()
        return capsys.readouterr().out.splitlines()

    return lines


@pytest.mark.parametrize("columns", [*WIDTHS, 0])
def test_words_fit_and_none_is_lost(terminal, columns):
    lines = terminal(columns, lambda: tables.table(CONTAINERS, ROWS))
    assert not columns or max(map(len, lines)) <= columns
    # Names of rows are whole.
    text = "\n".join(lines)
    for row in ROWS:
        assert row[0] in text and row[1] in text
    assert text.count("/") == ROWS[0][-1].count("/")
    assert "…" not in text
    if columns in (40, 80):  # the words do not fit beside each other: each row becomes a paragraph
        assert lines[0].split() == ["NAME", ROWS[0][0]]
        assert "" in lines and not any(line.startswith("PORTS") for line in lines[lines.index("") :])


@pytest.mark.parametrize("columns", [*WIDTHS, 0])
def test_numbers_fit_and_none_is_broken(terminal, columns):
    title, *lines = terminal(columns, lambda: tables.show_tables([MEASURED]))
    assert title == MEASURED.title
    assert not columns or max(map(len, lines)) <= columns
    text = "\n".join(lines)
    assert text.count("0.4321") == text.count("(0.4123..0.4567)") == 4 * 5
    if columns in (200, 0):
        assert lines[0].split() == [*KEYS, *IMPLEMENTATIONS]
    else:  # each row becomes a paragraph
        assert [line.split()[0] for line in lines[:9] if not line.startswith(" ")][:4] == list(KEYS)


def test_what_holds_for_all_tables_is_printed_once(terminal):
    both = [MEASURED, ReportTable("b", "AMD EPYC, dtype x", ("n",), (("1",),), MEASURED.notes)]
    lines = [line.rstrip() for line in terminal(200, lambda: tables.show_tables(both))]
    assert [line for line in lines if "AMD" in line or "doubt" in line or line in ("2 threads", "dtype x")] == [
        "2 threads",
        "dtype x",
        "AMD EPYC",
        "in doubt: the image is unverified",
    ]


def test_escapes_in_cells_and_titles_are_text(terminal):
    attack = "a\x1b[2Jb\u202e"
    lines = terminal(80, lambda: tables.show_tables([ReportTable(attack, attack, (attack,), ((attack,),))]))
    assert "\x1b" not in "".join(lines) and sum("\\x1b[2J" in line for line in lines) == 4


def test_numbers_are_short():
    assert (clock(61.9), clock(3_723)) == ("1:01", "1:02:03")
    assert (size(999), size(1_500_000), size(2.5e9)) == ("999 B", "2 MB", "2.5 GB")
    assert [counted(n, "job") for n in (0, 1, 2)] == ["0 jobs", "1 job", "2 jobs"]
    meter = Meter(3.0)  # the rate is that of the last seconds
    assert [meter.rate(0.0, 0), meter.rate(1.0, 100), meter.rate(10.0, 1000)] == [0.0, 100.0, 100.0]


@pytest.mark.parametrize(
    ("text", "count"),
    [("4GiB", 4 << 30), ("1.5MB", 1_500_000), (7, 7), ("1024TiB", 1 << 50), ("8GB", 8 * 10**9), ("8g", 8 << 30)],
)
def test_sizes(text: object, count: int):
    assert parse_size(text) == count


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (32 << 30, "32.0 GiB"), (3 << 50, "3072.0 TiB")],
)
def test_binary_sizes(count: int, text: str):
    assert binary_size(count) == text


@pytest.mark.parametrize(
    "text", ["9" * 400 + "GiB", "9" * 20 + "GiB", -5, 10**30, "1e400GiB", "4 gigs", "4Gi", "4i", None, [], True]
)
def test_what_is_no_size_is_a_value_error(text: object):
    with pytest.raises(ValueError, match=r"is not a size|a size is from 0"):
        parse_size(text)


ASKS = """
from reprokit import consent
from reprokit.errors import UsageError
for _ in range(3):
    try:
        consent.require('a name moves', '--replace', False)
        print('agreed')
    except UsageError:
        print('refused')
"""


def test_consent_is_an_option_or_the_answer_at_a_terminal(monkeypatch):
    consent.require("a name moves", "--replace", True)
    with Path(os.devnull).open() as nothing, pytest.raises(UsageError) as error:
        monkeypatch.setattr(sys, "stdin", nothing)
        consent.require("a name moves", "--replace", False, "x.rkit")
    assert (error.value.message, error.value.where) == ("a name moves", "x.rkit")
    assert error.value.hint == "nothing was changed; --replace allows it"
    ours, theirs = pty.openpty()
    os.write(ours, b"y\nn\n\n")
    command = [sys.executable, "-c", ASKS]
    process = subprocess.Popen(command, stdin=theirs, stdout=subprocess.PIPE, stderr=theirs, text=True)
    os.close(theirs)
    assert process.communicate(timeout=120)[0].split() == ["agreed", "refused", "refused"]
    shown = b""  # the terminal echoes the answers before they are read
    with contextlib.suppress(OSError):  # all that has the terminal open has ended
        while part := os.read(ours, 10_000):
            shown += part
    assert b"a name moves. Continue? [y/N]" in shown
    os.close(ours)


def test_a_reporter_gets_the_lines_of_displays_inside_it(reported: list[str], capsys):
    out = io.StringIO()
    with StepDisplay(out):
        notify("locking x", "from https://me:secret@host/x")
    with progress("writing x"), status("measuring"):
        pass
    assert reported == ["locking x", "from https://host/x", "measuring"]
    assert out.getvalue() == "" and capsys.readouterr().err == ""
