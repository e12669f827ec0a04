"""The table of verbs and their help."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest

from reprokit.verbs import GROUPS, VERBS, load_verb
from tests.support.verbs import run_verb


def helped(*words: str, columns: int = 80) -> str:
    return run_verb(*words, "--help", env={"COLUMNS": str(columns)}).stdout


def commands() -> Iterator[tuple[str, Any]]:
    """Each verb, and each verb of a group such as `results list`, with its command."""
    for verb in VERBS:
        command = load_verb(verb)
        for name, each in getattr(command, "commands", {"": command}).items():
            yield f"{verb} {name}".rstrip(), each


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_the_table_is_the_help_of_the_command(verb):
    assert load_verb(verb).help.splitlines()[0] == VERBS[verb]


def test_the_help_groups_the_verbs():
    sections = re.findall(r"^(\S[^:\n]*):\n((?:  .*\n?)+)", helped(), re.MULTILINE)
    shown = {title: re.findall(r"^  (\w+) ", text, re.MULTILINE) for title, text in sections if title != "Options"}
    assert shown == {title: list(verbs) for title, verbs in GROUPS.items()}


@pytest.mark.parametrize(("columns", "least"), [(60, 50), (80, 70), (150, 110)])
@pytest.mark.slow
def test_help_wraps_to_the_terminal(columns, least):
    for words in ((), ("bench",), ("results", "compare")):
        longest = max(map(len, helped(*words, columns=columns).splitlines()))
        assert longest <= columns
        assert words or longest >= least


@pytest.mark.parametrize(("name", "command"), [*commands()], ids=lambda value: value if isinstance(value, str) else "")
def test_each_verb_has_two_examples_that_parse(name, command):
    lines = [line.strip() for line in (command.epilog or "").splitlines()]
    examples = lines[lines.index("Examples:") + 1 :]
    assert len(examples) == 2
    for example in examples:
        words = shlex.split(example.partition(" > ")[0])
        start = ["reprokit", *name.split()]
        assert words[: len(start)] == start
        command.make_context(name, words[len(start) :])  # raises where an option or a value is wrong


def test_the_examples_are_shown_line_by_line():
    assert "    reprokit bench fused-attention\n    reprokit bench taco:cpu" in helped("bench")
