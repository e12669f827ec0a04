"""What a person sees at a terminal: colours and the pager."""

from __future__ import annotations

import pytest

from tests.support.terminals import coloured, shown


@pytest.fixture
def pager(tmp_path):
    """A pager that marks each line; the terminal shows what it got."""
    return f"sed 's/^/paged: /;w {tmp_path}/seen'"


@pytest.mark.slow
def test_an_error_has_colours_at_a_terminal_only():
    text = coloured("show", "\x1b[31mno error")
    assert "\x1b[1;31merror:\x1b[0m unknown recipe" in text and "\x1b[36mhint:\x1b[0m" in text
    assert text.count("\x1b[1;31m") == 1 and "\\x1b[31mno error" in text  # only the first word has a colour
    assert "\x1b" not in coloured("biuld", NO_COLOR="1")
    assert "\x1b" not in coloured("biuld", TERM="dumb")


@pytest.mark.slow
def test_what_does_not_fit_goes_to_the_pager_with_its_colours(pager, tmp_path):
    lines = coloured("list", rows=10, PAGER=pager).splitlines()
    assert len(lines) > 10 and all(line.startswith("paged: ") for line in lines)
    assert "\x1b[1m" in (tmp_path / "seen").read_text()
    assert "paged: " not in shown("list", rows=200, PAGER=pager)  # this fits
    assert "paged: " not in shown("--no-pager", "list", rows=10, PAGER=pager)
    assert "paged: " not in shown("list", rows=10, PAGER="cat", MANPAGER=pager)


@pytest.mark.slow
def test_less_shows_how_to_leave_it():
    assert "q leaves" in shown("list", rows=10, PAGER='echo "$LESS"; true')
    assert shown("list", rows=10, PAGER='echo "$LESS"; true', LESS="own").strip() == "own"


@pytest.mark.slow
@pytest.mark.parametrize("setting", [{"PAGER": ""}, {"PAGER": "no-such-pager"}, {"TERM": "dumb"}])
def test_without_a_pager_all_is_printed(setting):
    assert "turbotransformers" in shown("list", rows=10, **{"PAGER": "sed d", **setting})
