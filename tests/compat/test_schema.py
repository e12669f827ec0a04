"""Ranges of releases in the facts."""

from __future__ import annotations

import pytest

from reprokit.compat.schema import Span


@pytest.mark.parametrize(
    ("span", "inside", "outside"),
    [
        ({"to": "0.7"}, "0.7.2", "0.8.0"),
        ({"from": "2.1", "to": "2.12"}, "2.12.1", "2.0"),
        ({"below": "1.24"}, "1.23.5", "1.24"),
    ],
)
def test_a_short_limit_means_its_series(span: dict[str, str], inside: str, outside: str) -> None:
    assert Span.model_validate(span).covers(inside)
    assert not Span.model_validate(span).covers(outside)
