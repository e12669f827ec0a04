"""Values of recipes' fields."""

from __future__ import annotations

import pytest

from reprokit.recipe.fields import parse_size


@pytest.mark.parametrize(("text", "size"), [("4GiB", 4 << 30), ("1.5MB", 1_500_000), (7, 7), ("1024TiB", 1 << 50)])
def test_sizes(text: object, size: int):
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text", ["9" * 400 + "GiB", "9" * 20 + "GiB", -5, 10**30, "1e400GiB", "4 gigs", None, [], True]
)
def test_what_is_no_size_is_a_value_error(text: object):
    with pytest.raises(ValueError, match=r"is not a size|a size is from 0"):
        parse_size(text)
