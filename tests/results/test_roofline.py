"""What limits a time, by counted work and measured peaks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reprokit.bench.parse import Measurement
from reprokit.results.roofline import limits, points

CASE = {"dtype": "fp32", "n": 8}
PEAKS = [
    Measurement("machine.peak", "GFLOP/s", (100.0,), {"dtype": "fp32"}),
    Measurement("machine.bandwidth", "GB/s", (10.0,), {"kind": "copy"}),
]


def counted(gflop: float, mbyte: float, case: dict = CASE) -> list[Measurement]:
    return [Measurement("x.work", "GFLOP", (gflop,), case), Measurement("x.traffic", "MB", (mbyte,), case)]


@pytest.mark.parametrize(
    ("gflop", "mbyte", "ms", "limit"),
    [
        (1.0, 1.0, 11.0, "compute"),  # 10 ms at the peak
        (0.1, 100.0, 12.0, "bandwidth"),  # 10 ms of traffic
        (0.001, 0.1, 5.0, "overhead"),
        (1.0, 1.0, 0.0, ""),
    ],
)
def test_the_higher_roof_limits_unless_both_are_far(gflop, mbyte, ms, limit):
    time = Measurement("x.time", "ms", (ms,), {**CASE, "impl": "ours"})
    other = Measurement("x.time", "ms", (ms,), {**CASE, "n": 9})
    assert limits([*PEAKS, *counted(gflop, mbyte), time, other])[-2:] == [limit, ""]
    assert limits([*counted(gflop, mbyte), time])[-1] == ""


def test_points_of_counted_work():
    times = [Measurement("x.time", "ms", (20.0, 10.0, 30.0), {**CASE, "impl": impl}) for impl in ("ours", "theirs")]
    first, second = points([*counted(4.0, 2000.0), *times, Measurement("y.time", "ms", (20.0,), CASE)])
    assert (first.intensity, first.rate) == (2.0, pytest.approx(200.0))
    assert first.name == "x.time dtype=fp32 n=8 impl=ours" and second.name.endswith("theirs")
    assert points(times) == []


def test_a_time_is_of_any_unit_and_a_count_of_one():
    for unit, time in (("s", 0.011), ("us", 11e3), ("\u00b5s", 11e3), ("\u03bcs", 11e3), ("ns", 11e6)):
        assert limits([*PEAKS, *counted(1.0, 1.0), Measurement("x.time", unit, (time,), CASE)])[-1] == "compute", unit
    for number in range(4):
        numbers = [*PEAKS, *counted(1.0, 1.0)]
        numbers[number] = replace(numbers[number], unit=f"k{numbers[number].unit}")
        assert limits([*numbers, Measurement("x.time", "ms", (11.0,), CASE)])[-1] == "", number


def test_the_roof_is_that_of_the_same_threads():
    def measured(threads, peak):
        case = {"dtype": "fp32", "threads": threads}
        return [
            Measurement("machine.peak", "GFLOP/s", (peak,), {**case, "how": "fma"}),
            Measurement("machine.bandwidth", "GB/s", (peak / 10,), {"threads": threads, "kind": "copy"}),
            *counted(1.0, 1.0, case),
            Measurement("x.time", "ms", (11.0,), case),
        ]

    one, many = measured(1, 100.0), measured(16, 1600.0)
    for order in ([*one, *many], [*many, *one]):
        named = {each.params["threads"]: limit for each, limit in zip(order, limits(order), strict=True) if limit}
        assert named == {1: "compute", 16: "overhead"}
