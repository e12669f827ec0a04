"""Places of labels."""

from __future__ import annotations

from reprokit.results.plot_layout import apart


def test_names_are_kept_apart_and_near():
    assert apart([10.0, 50.0], 5, 0, 100) == [10.0, 50.0]
    assert apart([50.0, 50.0, 50.0], 10, 0, 100) == [40.0, 50.0, 60.0]
    crowded = apart([99.0] * 8, 10, 0, 100)
    assert crowded == [25.0 + 10 * i for i in range(8)]
    assert apart([1.0, 2.0], 10, 0, 100) == [5.0, 15.0]
