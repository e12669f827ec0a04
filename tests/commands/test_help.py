from __future__ import annotations

import pytest

from reprokit.errors import UsageError
from tests.support.paths import ROOT
from tests.support.terminals import shown


def test_topics_are_listed_with_their_titles(call):
    lines = [line.split() for line in call("help").stdout.splitlines()]
    topics = [line[0] for line in lines[1:]]
    assert topics == sorted(page.stem for page in (ROOT / "docs").glob("*.md") if page.stem != "index")
    assert all(len(line) > 1 for line in lines)


def test_a_page_is_printed_as_it_is(call):
    assert call("help", "mirrors").stdout == (ROOT / "docs/mirrors.md").read_text()


@pytest.mark.slow
def test_a_terminal_shows_a_page_set_out():
    text = shown("help", "completion", columns=70)
    assert "`" not in text and "|---|" not in text and "Completion in the shell" in text
    assert max(map(len, text.splitlines())) <= 70


def test_a_verb_without_a_page_shows_its_help(call):
    assert "--gpus" in call("help", "run").stdout


def test_an_unknown_topic_names_the_nearest(call):
    error = call("help", "mirors").exception
    assert isinstance(error, UsageError) and "did you mean mirrors?" in error.message and "recipes" in error.hint
    assert isinstance(call("help", "../README").exception, UsageError)
