"""What a person sees at a terminal: colours and the pager."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.terminals import coloured, shown


@pytest.fixture
def pager(tmp_path):
    """A pager that marks each line; the terminal shows what it got."""
    return f"sed 's/^/paged: /;w {tmp_path}/seen'"


@pytest.mark.slow
def test_an_error_has_colours_at_a_terminal_only():
    assert "\x1b[1;31merror:\x1b[0m unknown verb" in coloured("biuld")
    assert "\x1b[36mhint:\x1b[0m see" in coloured("biuld")
    assert "\x1b" not in coloured("biuld", NO_COLOR="1")
    assert "\x1b" not in coloured("biuld", TERM="dumb")
    piped = subprocess.run([sys.executable, "-m", "reprokit", "biuld"], capture_output=True, text=True, check=False)
    assert piped.stderr.startswith("error: unknown verb")


@pytest.mark.slow
def test_only_the_first_word_of_a_message_has_a_colour():
    text = coloured("show", "\x1b[31mno error")
    assert text.count("\x1b[1;31m") == 1 and "\\x1b[31mno error" in text


@pytest.mark.slow
def test_what_does_not_fit_goes_to_the_pager_with_its_colours(pager, tmp_path):
    text = coloured("list", rows=10, PAGER=pager)
    lines = text.splitlines()
    assert len(lines) > 10 and all(line.startswith("paged: ") for line in lines)
    assert "\x1b[1m" in (tmp_path / "seen").read_text()


def test_what_fits_does_not(pager):
    assert "paged: " not in shown("list", rows=200, PAGER=pager)


@pytest.mark.slow
def test_a_pager_is_not_opened_if_it_is_not_wanted(pager):
    assert "paged: " not in shown("--no-pager", "list", rows=10, PAGER=pager)
    assert "paged: " not in shown("list", rows=10, PAGER="cat", MANPAGER=pager)


@pytest.mark.slow
def test_less_is_asked_to_show_how_to_leave_it():
    assert "q leaves" in shown("list", rows=10, PAGER='echo "$LESS"; true')
    assert shown("list", rows=10, PAGER='echo "$LESS"; true', LESS="own").strip() == "own"


@pytest.mark.parametrize("setting", [{"PAGER": ""}, {"PAGER": "no-such-pager"}, {"TERM": "dumb"}])
@pytest.mark.slow
def test_without_a_pager_all_is_printed(setting):
    assert "turbotransformers" in shown("list", rows=10, **{"PAGER": "sed d", **setting})
