"""The machine's state, and the reasons to doubt what was measured in it."""

from __future__ import annotations

from reprokit.bench.condition import doubts, probe_state, state_of
from reprokit.results.record import MachineState


def test_this_machine_has_a_load(here):
    assert probe_state(here).load is not None


def test_a_probe_is_read():
    text = (
        "stat=cpu 100 0 100 800 0 0 0 0 0 0\nstat=cpu 150 0 100 850 0 0 0 0 0 0\nprocessors=8\nkhz=2800000\n"
        "heat=61000\nheat=70500\nthrottle=3\nthrottle=4\ngpu=1980, 45, 0x0000000000000024\ngpu=300, 30, 0x0\n"
    )
    assert state_of(text) == MachineState(4.0, 2800, 70.5, 7, (1980, 300), (45, 30), ("power limit, heat", ""))


def test_odd_answers_are_unknown():
    for text in ("", "stat=cpu\nstat=cpu\nprocessors=x", "heat=\nthrottle=-\ngpu=No devices were found", "khz=1e9"):
        assert state_of(text) == MachineState()


def test_load_heat_and_power_are_doubts():
    quiet = MachineState(load=0.2, throttles=3, gpu_slowdown=("",))
    assert list(doubts(2, quiet, quiet)) == []
    assert list(doubts(2, MachineState(load=1.5), quiet)) == [
        "other programs kept 1.5 processors busy before the benchmark"
    ]
    assert list(doubts(64, MachineState(load=1.5), quiet)) == []
    hot = MachineState(load=0.2, throttles=5, gpu_slowdown=("", "heat"))
    assert list(doubts(2, quiet, hot)) == [
        "the CPU was slowed down by heat during the benchmark", "GPU 1 was slowed down: heat",
    ]  # fmt: skip
