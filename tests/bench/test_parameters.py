"""The variables that a user sets."""

from __future__ import annotations

import pytest

from reprokit.bench.parameters import doubtful, parameter
from reprokit.errors import UsageError
from reprokit.recipe.model import Benchmark


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("A=1", 1), ("A=1.5", 1.5), ("A=true", True), ("A=row", "row"), ('A="1"', "1"), ("A=a=b", "a=b"), ('A=""', ""),
        ("A=" + "9" * 24, 10**24 - 1), (f"A='{10**38}'", str(10**38)),
    ],
)  # fmt: skip
def test_values_are_those_of_yaml(text, value):
    name, found = parameter(text)
    assert (name, found, type(found)) == ("A", value, type(value))


@pytest.mark.parametrize(
    "text",
    [
        "A",
        "A=",
        "=1",
        "1A=1",
        "A B=1",
        "A;x=1",
        "A=[1]",
        "A={b: 1}",
        "A=.nan",
        "A=.inf",
        "A=*x",
        "A=~",
        "A=" + "9" * 25,
    ],
)
def test_others_are_refused(text):
    with pytest.raises(UsageError, match="--param"):
        parameter(text)


def test_a_slip_is_said_and_other_variables_are_not():
    benchmark = Benchmark(command='run "$SIZE" ${MASK:-none}', matrix={"THREADS": [1]}, parse={"format": "records"})
    assert doubtful("b", benchmark, ["THREADS", "SIZE", "MASK", "CUDA_LAUNCH_BLOCKING"]) == []
    assert doubtful("b", benchmark, ["THREAD", "SIZES"]) == [
        "b gets THREAD, which its command and matrix do not have; did you mean THREADS?",
        "b gets SIZES, which its command and matrix do not have; did you mean SIZE?",
    ]
