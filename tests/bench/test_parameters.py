"""The variables that a user sets."""

from __future__ import annotations

import pytest

from reprokit.bench.parameters import check_names, parameter
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


@pytest.mark.parametrize(
    ("name", "similar"),
    [
        ("THREAD", "; did you mean THREADS?"),
        ("SIZES", "; did you mean SIZE?"),
        ("threads", "; did you mean THREADS?"),
        ("OMP_NUM_THREAD", "; did you mean OMP_NUM_THREADS?"),
        ("batch", ""),
    ],
)
def test_a_name_that_no_benchmark_has_is_refused(name, similar):
    benchmark = Benchmark(
        command='run "$SIZE" ${MASK:-none}',
        matrix={"THREADS": [1], "OMP_NUM_THREADS": [1]},
        parse={"format": "records"},
    )
    check_names("x:cpu", [benchmark], ["THREADS", "SIZE", "MASK", "CUDA_LAUNCH_BLOCKING"], "x.yaml")
    with pytest.raises(UsageError) as refused:
        check_names("x:cpu", [benchmark], ["THREADS", name], "x.yaml")
    assert refused.value.message == f"no benchmark of x:cpu has the variable {name}{similar}"
