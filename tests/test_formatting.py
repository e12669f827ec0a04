from __future__ import annotations

from reprokit.formatting import Meter, clock, size


def test_figures_are_short():
    assert (clock(61.9), clock(3_723)) == ("1:01", "1:02:03")
    assert (size(999), size(1_500_000), size(2.5e9)) == ("999 B", "2 MB", "2.5 GB")


def test_a_rate_is_that_of_the_last_seconds():
    meter = Meter(3.0)
    assert [meter.rate(0.0, 0), meter.rate(1.0, 100), meter.rate(10.0, 1000)] == [0.0, 100.0, 100.0]
