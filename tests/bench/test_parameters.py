"""`--param NAME=VALUE`."""

from __future__ import annotations

import pytest

from reprokit.bench.parameters import parameter
from reprokit.errors import UsageError


@pytest.mark.parametrize(
    ("text", "value"),
    [("A=1", 1), ("A=1.5", 1.5), ("A=true", True), ("A=row", "row"), ('A="1"', "1"), ("A=a=b", "a=b"), ('A=""', "")],
)
def test_values_are_those_of_yaml(text, value):
    name, found = parameter(text)
    assert (name, found, type(found)) == ("A", value, type(value))


@pytest.mark.parametrize(
    "text", ["A", "A=", "=1", "1A=1", "A B=1", "A;x=1", "A=[1]", "A={b: 1}", "A=.nan", "A=.inf", "A=*x", "A=~"]
)
def test_others_are_refused(text):
    with pytest.raises(UsageError, match="--param"):
        parameter(text)
