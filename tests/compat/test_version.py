"""Versions, ranges of releases, requirements and pins as text."""

from __future__ import annotations

import pytest

from reprokit.compat.schema import Span, meets
from reprokit.compat.stack import parse_pins
from reprokit.compat.version import at_most, begins, key, local, matching, overlap, parts, public, series
from reprokit.errors import UsageError


@pytest.mark.parametrize(
    "ordered",
    [
        "9.2 10.0 10.1.105 10.1.243 11.0 11.0.1 12",
        "450.51.05 450.80.02 455.23.05 525.60.13 525.105.17",
        "0.4.3 0.4.3.post1 0.4.3.post2 0.5.0",
        "0.25.0.dev1 0.25.0rc0 0.25.0 0.25.0.post1",
    ],
)
def test_versions_are_ordered_by_their_numbers(ordered: str) -> None:
    versions = ordered.split()
    assert sorted(reversed(versions), key=key) == versions
    assert key("11") == key("11.0.0")


@pytest.mark.parametrize(
    ("prefix", "text", "expected"),
    [
        ("11", "11.8.0", True),
        ("11.8", "11.8", True),
        ("0.4.0", "0.4", True),
        ("1.8.0", "1.8.0+cu111", True),
        ("1", "11.8", False),
        ("11.1", "11.11", False),
        ("11.8.0", "11.8.1", False),
        ("0.4.3.post1", "0.4.3.post2", False),
    ],
)
def test_a_prefix_stands_for_its_releases(prefix: str, text: str, expected: bool) -> None:
    assert begins(prefix, text) is expected


@pytest.mark.parametrize(
    ("pin", "releases"),
    [
        ("11.4", ("11.4.0", "11.4.1")),
        ("11.4.1", ("11.4.1",)),
        ("12", ()),
        ("11.8.0.7", ("11.8.0.7",)),
        ("not a version", ()),
    ],
)
def test_a_pin_covers_the_listed_releases(pin: str, releases: tuple[str, ...]) -> None:
    assert matching(pin, ["11.4.0", "11.4.1", "11.8.0"]) == releases


def test_a_short_limit_means_its_series() -> None:
    assert at_most("9.4.0", "9")
    assert not at_most("10.1", "9")
    assert overlap("11.8", "11.8.0") and overlap("11.8.0", "11.8") and not overlap("11.8.0", "11.8.1")


@pytest.mark.parametrize(
    ("span", "inside", "outside"),
    [
        ({"to": "0.7"}, "0.7.2", "0.8.0"),
        ({"from": "2.1", "to": "2.12"}, "2.12.1", "2.0"),
        ({"below": "1.24"}, "1.23.5", "1.24"),
    ],
)
def test_a_short_limit_of_a_range_means_its_series(span: dict[str, str], inside: str, outside: str) -> None:
    assert Span.model_validate(span).covers(inside)
    assert not Span.model_validate(span).covers(outside)


@pytest.mark.parametrize(
    ("spec", "version", "within"),
    [(">=1.17,<2", "1.26", True), (">=3.6.1", "3.6", True), ("<0.18", "0.18.0", False), (">=0.4.3", "0.4.2", False)],
)
def test_a_short_version_meets_requirements_as_its_series(spec: str, version: str, within: bool) -> None:
    assert meets(spec, version) is within


def test_parts_of_builds() -> None:
    assert (public("1.8.0+cu111"), local("1.8.0+cu111"), series("11.4.3")) == ("1.8.0", "cu111", "11.4")
    assert parts("3.x") is None
    with pytest.raises(ValueError, match="not a version"):
        key("3.x")


@pytest.mark.parametrize("text", ["torch==2.1.0", "pytorch=2.1.0", "pytorch==2.1.0"])
def test_the_spellings_of_pip_and_conda_are_pins(text: str) -> None:
    assert parse_pins(text) == {"torch": "2.1.0"}


@pytest.mark.parametrize("text", ["torch==", "torch===2.1.0", "torch=2.1.0,pytorch=2.0.0"])
def test_other_spellings_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_pins(text)
