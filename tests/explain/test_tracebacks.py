"""What an explanation says of an exception that no rule knows."""

from __future__ import annotations

from reprokit.explain.judge import explain
from tests.support import logs

TRACEBACK = 'Traceback (most recent call last):\n  File "run.py", line 3, in <module>\n    main()\n'


def first(text: str) -> str:
    return explain(logs.stream(text)).causes[0].cause


def test_a_message_that_goes_on_below_is_quoted_to_its_end():
    cause = first(TRACEBACK + "RuntimeError: /w/flux/kernel.cc(88)\nthe flux needs an even grid\n")
    assert "/w/flux/kernel.cc(88) the flux needs an even grid" in cause


def test_a_line_of_another_program_is_not_taken_for_the_message():
    cause = first(TRACEBACK + "RuntimeError: odd flux 7\nleaving the folder\n")
    assert "leaving" not in cause


def test_the_usual_words_of_a_message_say_more_than_a_general_class():
    cause = first(TRACEBACK + "RuntimeError: flux 7 must be even\n")
    assert "does not take an input, an option or a value: flux 7 must be even" in cause


def test_a_class_with_a_meaning_of_its_own_keeps_it():
    cause = first(TRACEBACK + "IndexError: flux 7 must be even\n")
    assert "an index outside of a list or array: flux 7 must be even" in cause


def test_what_was_not_captured_leaves_no_gap_in_the_sentence():
    cause = first("AttributeError: module 'numpy' has no attribute 'warnings'\n")
    assert cause.startswith("the installed NumPy has no warnings: ")
