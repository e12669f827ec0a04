"""The machine's state, and the reasons to doubt what was measured in it."""

from __future__ import annotations

import pytest

from reprokit.bench.condition import doubts, probe_state, samples_of, state_of
from reprokit.results.record import MachineState


@pytest.mark.slow
def test_this_machine_has_a_load(here):
    assert probe_state(here).load is not None


def test_a_probe_is_read():
    text = (
        "stat=cpu 100 0 100 800 0 0 0 0 0 0\nstat=cpu 150 0 100 850 0 0 0 0 0 0\nprocessors=8\nkhz=2800000\n"
        "heat=61000\nheat=70500\nthrottle=3\nthrottle=4\ngpu=1980, 45, 0x0000000000000024\ngpu=300, 30, 0x0\n"
    )
    assert state_of(text) == MachineState(4.0, 2800, 70.5, 7, (1980, 300), (45, 30), ("power limit, heat", ""))


def test_odd_answers_are_unknown():
    for text in (
        "",
        "stat=cpu\nstat=cpu\nprocessors=x",
        "heat=\nthrottle=-\ngpu=No devices were found",
        "khz=1e9",
        "khz=" + "9" * 5000,
    ):
        assert state_of(text) == MachineState()


@pytest.mark.slow
def test_long_numbers_and_many_gpus_are_not_read():
    nines = "9" * 5000
    assert state_of(f"gpu={nines},{nines},0x0").gpu_clock == (None,)
    assert state_of(f"stat=cpu {' '.join([nines] * 8)}\n" * 2 + "processors=2").load is None
    assert len(state_of("gpu=1,1,0x4\n" * 100_000).gpu_clock) < 10_000
    lines = [f"reprokit-gpu: 1 {gpu}, {bits:#x}\n" for gpu in range(10_000) for bits in range(0, 256, 4)]
    _, samples = samples_of("".join(lines))
    assert {gpu for gpu, _ in samples} == set(range(100))


def test_load_heat_and_power_are_doubts():
    quiet = MachineState(load=0.2, throttles=3, gpu_slowdown=("",))
    assert list(doubts(2, quiet, quiet)) == []
    assert list(doubts(2, MachineState(load=1.5), quiet)) == [
        "other programs kept 1.5 processors busy before the benchmark"
    ]
    assert list(doubts(64, MachineState(load=1.5), quiet)) == []
    hot = MachineState(load=0.2, throttles=5, gpu_slowdown=("", "heat"))
    assert list(doubts(2, quiet, hot)) == [
        "GPU 1 was slowed down after the benchmark: heat", "the CPU was slowed down by heat during the benchmark",
    ]  # fmt: skip
    assert list(doubts(2, hot, quiet)) == ["GPU 1 was slowed down before the benchmark: heat"]


def test_samples_are_counted_by_gpu_and_reason():
    counted = "".join(f"reprokit-gpu: {line}\n" for line in ("      3 0, 0x0", "      2 0, 0x4", "      1 1, 0x48"))
    errors, samples = samples_of("oops\n" + counted)
    assert errors == "oops\n"
    assert samples_of("100 %" + counted) == ("100 %", samples)
    assert list(doubts(2, MachineState(), MachineState(), samples)) == [
        "GPU 0 was slowed down in 2 of 5 samples: power limit",
        "GPU 1 was slowed down in 1 of 1 samples: hardware slowdown, heat",
    ]


def test_an_unknown_clock_is_not_0_and_gpus_keep_their_numbers():
    found = state_of("gpu=[N/A], 45, 0x4\ngpu=1980, 50, [N/A]\ngpu=1500, [N/A], 0x20\n")
    assert (found.gpu_clock, found.gpu_temperature) == ((None, 1980, 1500), (45, 50, None))
    assert found.gpu_slowdown == ("power limit", "", "heat")
