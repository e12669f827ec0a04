"""Tables at terminals of several widths, and in a pipe."""

from __future__ import annotations

import os

import pytest

from reprokit import tables
from reprokit.results.tables import ReportTable

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
    # Folded cells are put together again; names of rows are whole.
    text = "\n".join(lines)
    for row in ROWS:
        assert row[0] in text and row[1] in text
    assert sum(line.count("d/") for line in lines) == 30
    assert "…" not in text


@pytest.mark.parametrize("columns", [*WIDTHS[1:], 0])
def test_numbers_fit_and_each_part_names_its_rows(terminal, columns):
    title, *lines = terminal(columns, lambda: tables.show_tables([MEASURED]))
    assert title == MEASURED.title
    assert not columns or max(map(len, lines)) <= columns
    heads = [line.split() for line in lines if "implementation-" in line]
    assert [name for head in heads for name in head if name not in KEYS] == list(IMPLEMENTATIONS)
    assert all(head[: len(KEYS)] == list(KEYS) for head in heads)
    rows = [line.split() for line in lines if "bfloat16" in line]
    assert [row[:4] for row in rows] == [list(row[:4]) for row in MEASURED.rows] * len(heads)
    assert sum("".join(row).count("0.4321(0.4123..0.4567)") for row in rows) == 4 * 5
    assert len(heads) == 1 if columns in (0, 200) else len(heads) > 1


def test_a_row_wider_than_the_terminal_becomes_a_paragraph(terminal):
    lines = terminal(40, lambda: tables.table(CONTAINERS, ROWS))
    assert lines[0].split() == ["NAME", ROWS[0][0]]
    assert "" in lines and not any(line.startswith("PORTS") for line in lines[lines.index("") :])


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
