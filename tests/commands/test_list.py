from __future__ import annotations

import json

from reprokit.errors import UsageError


def test_a_table_of_all_recipes(call, recipe):
    recipe("mine", "variants: {a: {base: debian:12}, b: {base: debian:12}}")
    result = call("list")
    assert result.exit_code == 0
    row = next(line for line in result.output.splitlines() if line.startswith("mine"))
    # Markup of a stranger's title is text.
    assert "a, b" in row and "[b]A [/b] mine" in row and "V 2020" in row
    assert "featgraph" in result.output


def test_json(call):
    rows = json.loads(call("list", "--json").stdout)
    by_name = {row["name"]: row for row in rows}
    assert list(by_name) == sorted(by_name) and {"faith", "featgraph", "fused-attention"} <= set(by_name)
    assert by_name["taco"]["default"] == "cpu"
    assert by_name["taco"]["variants"] == ["cpu", "cuda-debian", "as-published"]
    assert by_name["taco"]["historic"] == ["as-published"]


def test_historic_variants_are_listed_as_such(call, recipe):
    recipe("mine", "variants: {a: {base: debian:12}, old: {base: debian:11, historic: true}}")
    row = next(line for line in call("list").output.splitlines() if line.startswith("mine"))
    assert "a, old (historic)" in row


def test_a_broken_recipe_hides_no_other(call, recipe):
    recipe("broken", "variants: {a: {base: debian:12, wheel: []}}")
    recipe("worse", "variants: [")
    result = call("list", "--json")
    assert isinstance(result.exception, UsageError) and "did you mean wheels" in result.exception.message
    assert "error: not valid YAML" in result.stderr
    assert "fused-attention" in [r["name"] for r in json.loads(result.stdout)]
