from __future__ import annotations

import json

from reprokit.errors import UsageError


def test_a_recipe_with_all_its_variants(call):
    text = call("show", "featgraph").stdout
    for part in (
        "SC 2020",
        "featgraph:cpu",
        "featgraph:cuda",
        "debian:11",
        "tvm 0.7.0",
        "728b829575e5 (v0.7.0)",
        "claim",
    ):
        assert part in text


def test_a_variant_shows_only_itself_and_what_it_runs(call):
    text = call("show", "featgraph:cpu").stdout
    assert "featgraph:cuda" not in text and "spmm:" in text and "spmm-cuda" not in text


def test_what_is_not_known_is_not_printed(call, recipe):
    recipe("mine", "variants: {a: {base: debian:12}}")
    lines = call("show", "mine").stdout.splitlines()
    assert [line.split()[0] for line in lines if line.strip()] == [
        "mine",
        "paper",
        "venue",
        "licence",
        "mine:a",
        "base",
    ]


def test_json_is_the_recipe_with_extends_resolved(call):
    data = json.loads(call("show", "featgraph:cuda-debian", "--json").stdout)
    assert [*data["variants"]] == ["cuda-debian"] and data["default"] == "cpu"
    variant = data["variants"]["cuda-debian"]
    assert variant["pins"]["tvm"] == "0.7.0" and variant["pins"]["cuda"] == "11.2" and variant["for"] == "compile"
    assert variant["requires"]["memory"] == 4 * 1024**3
    assert data["paper"]["venue"] == "SC" and data["benchmarks"]["spmm"]["parse"]["expect"] == 18


def test_an_unknown_recipe(call):
    result = call("show", "fath")
    assert isinstance(result.exception, UsageError) and "did you mean faith?" in result.exception.message
