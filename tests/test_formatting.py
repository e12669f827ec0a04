from __future__ import annotations

import pytest

from reprokit.formatting import Meter, binary_size, clock, counted, parse_size, size


def test_figures_are_short():
    assert (clock(61.9), clock(3_723)) == ("1:01", "1:02:03")
    assert (size(999), size(1_500_000), size(2.5e9)) == ("999 B", "2 MB", "2.5 GB")
    assert [counted(n, "job") for n in (0, 1, 2)] == ["0 jobs", "1 job", "2 jobs"]


def test_a_rate_is_that_of_the_last_seconds():
    meter = Meter(3.0)
    assert [meter.rate(0.0, 0), meter.rate(1.0, 100), meter.rate(10.0, 1000)] == [0.0, 100.0, 100.0]


@pytest.mark.parametrize(
    ("text", "count"),
    [("4GiB", 4 << 30), ("1.5MB", 1_500_000), (7, 7), ("1024TiB", 1 << 50), ("8GB", 8 * 10**9), ("8g", 8 << 30)],
)
def test_sizes(text: object, count: int):
    assert parse_size(text) == count


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (32 << 30, "32.0 GiB"), (3 << 50, "3072.0 TiB")],
)
def test_binary_sizes(count: int, text: str):
    assert binary_size(count) == text


@pytest.mark.parametrize(
    "text", ["9" * 400 + "GiB", "9" * 20 + "GiB", -5, 10**30, "1e400GiB", "4 gigs", "4Gi", "4i", None, [], True]
)
def test_what_is_no_size_is_a_value_error(text: object):
    with pytest.raises(ValueError, match=r"is not a size|a size is from 0"):
        parse_size(text)
