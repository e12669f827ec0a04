"""What stages that run at once tell."""

from __future__ import annotations

from threading import Thread

import pytest

from reprokit.image import stage
from reprokit.image.events import Event, OutputLine
from reprokit.image.stage import OrderedEvents


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[Event]:
    monkeypatch.setattr(stage, "_MOST_WAITING", 2)
    return []


def lines(stage_name: str, count: int) -> list[Event]:
    return [OutputLine(f"{stage_name}{number}") for number in range(count)]


def test_a_stage_with_much_to_tell_waits_for_its_turn(told: list[Event]):
    events = OrderedEvents(told.append, [0, 1])
    second = Thread(target=lambda: [events.report(1, line) for line in lines("b", 3)])
    second.start()
    for line in lines("a", 3):
        events.report(0, line)
    second.join(0.2)
    assert second.is_alive() and told == lines("a", 3)
    events.end(0)
    second.join(10)
    assert not second.is_alive() and told == lines("a", 3) + lines("b", 3)


def test_the_stage_that_failed_has_the_last_word(told: list[Event]):
    events = OrderedEvents(told.append, [0, 1, 2])
    third = Thread(target=lambda: [events.report(2, line) for line in lines("c", 9)])
    third.start()
    for number, line in ((0, "a0"), (1, "b0"), (0, "a1")):
        events.report(number, OutputLine(line))
    events.stop(failed=1)
    events.report(0, OutputLine("late"))
    third.join(10)
    assert told == [OutputLine("a0"), OutputLine("a1"), OutputLine("b0")] and not third.is_alive()
