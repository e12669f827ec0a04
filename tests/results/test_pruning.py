"""Which records are old."""

from __future__ import annotations

from reprokit.results.pruning import old


def test_the_last_records_of_one_second_stay(record):
    records = [record(samples=(float(n), 9.0)) for n in range(3)]
    assert old(records, None, 1) == [records[1], records[0]]
