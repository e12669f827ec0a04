from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprokit.supply.site import span


@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 50))
def test_a_range_is_the_slice_that_it_names(first: int, last: int, size: int):
    content = bytes(range(size))
    place = span(f"bytes={first}-{last}", size)
    if last < first:
        assert place == (0, size)
    elif first >= size:
        assert place is None
    else:
        assert place is not None and content[slice(*place)] == content[first : last + 1]


@pytest.mark.parametrize(
    ("wanted", "size", "place"),
    [
        *((text, 10, (0, 10)) for text in ("", "bytes=-", "bytes=1-2,4-5", "lines=1-2", "bytes=a-b", "bytes=5-2")),
        ("bytes=-3", 10, (7, 10)),
        ("bytes=-13", 10, (0, 10)),
        ("bytes=-0", 10, None),
        ("bytes=-5", 0, None),
        ("bytes=0-", 0, None),
    ],
)
def test_the_last_bytes_and_what_is_no_single_range(wanted: str, size: int, place: tuple[int, int] | None):
    assert span(wanted, size) == place
