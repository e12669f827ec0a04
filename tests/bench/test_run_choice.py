"""Which benchmarks run in which variant."""

from __future__ import annotations

from pathlib import Path

import pytest

from reprokit.bench.run import benchmarks
from reprokit.errors import UsageError
from reprokit.recipe.find import Target
from reprokit.recipe.model import Recipe

RECIPE = Recipe.model_validate(
    {
        "name": "gnn",
        "paper": {"title": "T", "venue": "V", "year": 2020, "licence": "none"},
        "variants": {
            "cpu": {"base": "debian:12"},
            "cuda": {"base": "debian:12"},
            "bare": {"base": "debian:12"},
        },
        "benchmarks": {
            name: {"command": name, "parse": {"format": "records"}, "variants": variants}
            for name, variants in (("spmm", ["cpu", "cuda"]), ("sddmm", ["cuda"]))
        },
    }
)


def target(variant: str) -> Target:
    return Target(RECIPE, variant, Path("gnn.yaml"))


def test_a_variant_has_its_own_benchmarks():
    assert list(benchmarks(target("cuda"), [])) == ["spmm", "sddmm"]
    assert list(benchmarks(target("cpu"), [])) == ["spmm"]
    assert list(benchmarks(target("cuda"), ["sddmm"])) == ["sddmm"]


@pytest.mark.parametrize(
    ("variant", "wanted", "message", "hint"),
    [
        ("cpu", ["spm"], "no benchmark 'spm'; did you mean spmm?", "spmm, sddmm"),
        ("cpu", ["sddmm"], "not one of the variant 'cpu'", "cuda"),
        ("bare", [], "gnn:bare has no benchmarks", "gnn:cpu has 1; gnn:cuda has 2; `reprokit bench gnn:bare --ext"),
    ],
)
def test_what_is_not_there_is_named(variant, wanted, message, hint):
    with pytest.raises(UsageError, match=message) as error:
        benchmarks(target(variant), wanted)
    assert hint in error.value.hint
