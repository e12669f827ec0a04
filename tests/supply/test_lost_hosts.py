"""Which hosts a command gives up."""

from __future__ import annotations

from reprokit.supply.hosts import LostHosts

HOST = "https://one.test/a"


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_host_is_lost_after_two_failures():
    lost = LostHosts()
    lost.failed(HOST, "refused")
    assert not lost.why(HOST)
    lost.failed("https://one.test/b", "refused")
    assert lost.why("https://me:pw@one.test:443/c") == "refused"
    assert not lost.why("http://one.test/a") and not lost.why("file:///a")


def test_an_answer_forgets_earlier_failures_and_gives_more_time():
    clock = Clock()
    lost = LostHosts(clock)
    lost.failed(HOST, "refused")
    lost.answered(HOST)
    for clock.now in (0.0, 3.0, 9.0):
        lost.failed(HOST, "refused")
    assert not lost.why(HOST)
    clock.now = 11.0
    lost.failed(HOST, "refused")
    assert lost.why(HOST) == "refused"


def test_a_lost_host_gets_another_chance_after_five_minutes():
    clock = Clock()
    lost = LostHosts(clock)
    lost.lose(HOST, "refused")
    clock.now = 299.0
    assert lost.why(HOST)
    clock.now = 300.0
    assert not lost.why(HOST)
    lost.lose("//one.test:99999", "refused")  # no address, and no error
    assert lost.why("//one.test:99999") and not lost.why("http://[::1")
