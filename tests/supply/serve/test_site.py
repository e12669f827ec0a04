from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprokit.supply.serve.site import span

SIZES = st.integers(0, 50)


@given(st.integers(0, 60), st.integers(0, 60), SIZES)
def test_a_range_is_the_slice_that_it_names(first: int, last: int, size: int):
    content = bytes(range(size))
    found = span(f"bytes={first}-{last}", size)
    if last < first:
        assert found == (0, size)
    elif first >= size:
        assert found is None
    else:
        assert found is not None and content[slice(*found)] == content[first : last + 1]


@given(st.integers(1, 60), st.integers(1, 50))
def test_the_last_bytes(count: int, size: int):
    content = bytes(range(size))
    found = span(f"bytes=-{count}", size)
    assert found is not None and content[slice(*found)] == content[-count:]


@pytest.mark.parametrize("wanted", ["", "bytes=-", "bytes=1-2,4-5", "lines=1-2", "bytes=a-b", "bytes=5-2"])
def test_what_is_no_single_range_is_ignored(wanted: str):
    assert span(wanted, 10) == (0, 10)


def test_nothing_of_nothing():
    assert span("bytes=-0", 10) is None
    assert span("bytes=-5", 0) is None
    assert span("bytes=0-", 0) is None
