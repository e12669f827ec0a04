"""What limits a time, by counted work and measured peaks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reprokit.bench.parse import Measurement
from reprokit.results.roofline import limits, points

PEAKS = [
    Measurement("machine.peak", "GFLOP/s", (100.0,), {"dtype": "fp32"}),
    Measurement("machine.bandwidth", "GB/s", (10.0,), {"kind": "copy"}),
]


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
    case = {"dtype": "fp32", "n": 8}
    counted = [Measurement("x.work", "GFLOP", (gflop,), case), Measurement("x.traffic", "MB", (mbyte,), case)]
    time = Measurement("x.time", "ms", (ms,), {**case, "impl": "ours"})
    other = Measurement("x.time", "ms", (ms,), {**case, "n": 9})
    assert limits([*PEAKS, *counted, time, other])[-2:] == [limit, ""]
    assert limits([*counted, time])[-1] == ""


def test_points_of_counted_work():
    case = {"dtype": "fp32", "n": 8}
    counted = [Measurement("x.work", "GFLOP", (4.0,), case), Measurement("x.traffic", "MB", (2000.0,), case)]
    times = [Measurement("x.time", "ms", (20.0, 10.0, 30.0), {**case, "impl": impl}) for impl in ("ours", "theirs")]
    uncounted = Measurement("y.time", "ms", (20.0,), case)
    first, second = points([*counted, *times, uncounted])
    assert (first.intensity, first.rate) == (2.0, pytest.approx(200.0))
    assert first.name == "x.time dtype=fp32 n=8 impl=ours" and second.name.endswith("theirs")
    assert points(times) == []


@pytest.mark.parametrize(
    ("unit", "time"), [("s", 0.011), ("us", 11e3), ("\u00b5s", 11e3), ("\u03bcs", 11e3), ("ns", 11e6)]
)
def test_a_time_in_any_unit(unit, time):
    case = {"dtype": "fp32", "n": 8}
    counted = [Measurement("x.work", "GFLOP", (1.0,), case), Measurement("x.traffic", "MB", (1.0,), case)]
    assert limits([*PEAKS, *counted, Measurement("x.time", unit, (time,), case)])[-1] == "compute"


@pytest.mark.parametrize("number", range(4))
def test_what_is_counted_in_another_unit_is_unknown(number):
    case = {"dtype": "fp32", "n": 8}
    found = [*PEAKS, Measurement("x.work", "GFLOP", (1.0,), case), Measurement("x.traffic", "MB", (1.0,), case)]
    time = Measurement("x.time", "ms", (11.0,), case)
    assert limits([*found, time])[-1] == "compute"
    found[number] = replace(found[number], unit=f"k{found[number].unit}")
    assert limits([*found, time])[-1] == ""


def test_the_roof_is_that_of_the_same_threads():
    def measured(threads, peak, ms):
        case = {"dtype": "fp32", "threads": threads}
        return [
            Measurement("machine.peak", "GFLOP/s", (peak,), {**case, "how": "fma"}),
            Measurement("machine.bandwidth", "GB/s", (peak / 10,), {"threads": threads, "kind": "copy"}),
            Measurement("x.work", "GFLOP", (1.0,), case),
            Measurement("x.traffic", "MB", (1.0,), case),
            Measurement("x.time", "ms", (ms,), case),
        ]

    one, many = measured(1, 100.0, 11.0), measured(16, 1600.0, 11.0)
    for order in ([*one, *many], [*many, *one]):
        named = {each.params["threads"]: limit for each, limit in zip(order, limits(order), strict=True) if limit}
        assert named == {1: "compute", 16: "overhead"}
