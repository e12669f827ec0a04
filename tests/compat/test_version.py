from __future__ import annotations

import pytest

from reprokit.compat.version import at_most, begins, key, local, matching, overlap, parts, public, series


@pytest.mark.parametrize(
    "ordered",
    [
        ["9.2", "10.0", "10.1.105", "10.1.243", "11.0", "11.0.1", "12"],
        ["450.51.05", "450.80.02", "455.23.05", "525.60.13", "525.105.17"],
        ["0.4.3", "0.4.3.post1", "0.4.3.post2", "0.5.0"],
        ["0.25.0.dev1", "0.25.0rc0", "0.25.0", "0.25.0.post1"],
    ],
)
def test_versions_are_ordered_by_their_numbers(ordered: list[str]) -> None:
    assert sorted(reversed(ordered), key=key) == ordered


def test_missing_numbers_are_zeros() -> None:
    assert key("11") == key("11.0.0")


@pytest.mark.parametrize(
    ("prefix", "text"), [("11", "11.8.0"), ("11.8", "11.8"), ("0.4.0", "0.4"), ("1.8.0", "1.8.0+cu111")]
)
def test_a_prefix_stands_for_its_releases(prefix: str, text: str) -> None:
    assert begins(prefix, text)


@pytest.mark.parametrize(
    ("prefix", "text"), [("1", "11.8"), ("11.1", "11.11"), ("11.8.0", "11.8.1"), ("0.4.3.post1", "0.4.3.post2")]
)
def test_numbers_count_whole(prefix: str, text: str) -> None:
    assert not begins(prefix, text)


def test_a_pin_covers_known_releases() -> None:
    known = ["11.4.0", "11.4.1", "11.8.0"]
    assert matching("11.4", known) == ("11.4.0", "11.4.1")
    assert matching("11.4.1", known) == ("11.4.1",)
    assert matching("12", known) == ()
    assert matching("11.8.0.7", known) == ("11.8.0.7",)
    assert matching("not a version", known) == ()


def test_a_short_limit_means_its_series() -> None:
    assert at_most("9.4.0", "9")
    assert not at_most("10.1", "9")
    assert overlap("11.8", "11.8.0") and overlap("11.8.0", "11.8") and not overlap("11.8.0", "11.8.1")


def test_parts_of_builds() -> None:
    assert (public("1.8.0+cu111"), local("1.8.0+cu111"), series("11.4.3")) == ("1.8.0", "cu111", "11.4")
    assert parts("3.x") is None
    with pytest.raises(ValueError, match="not a version"):
        key("3.x")
