"""What is shown of recipes, blocks and topics: `list`, `show`, `blocks`, `schema`, `render`, `help`."""

from __future__ import annotations

import errno
import json

import pytest

from reprokit.errors import EngineError, UsageError
from tests.support.paths import ROOT
from tests.support.terminals import shown


def test_all_recipes_are_listed(call, recipe):
    rows = {row["name"]: row for row in json.loads(call("list", "--json").stdout)}
    assert list(rows) == sorted(rows) and {"faith", "featgraph", "fused-attention"} <= set(rows)
    taco = rows["taco"]
    assert (taco["default"], taco["historic"]) == ("cpu", ["as-published"])
    assert taco["variants"] == ["cpu", "cuda-debian", "as-published"]
    recipe("mine", "variants: {a: {base: debian:12}, old: {base: debian:11, historic: true}}")
    output = call("list").output
    row = next(line for line in output.splitlines() if line.startswith("mine"))
    # Markup of a stranger's title is text.
    assert "a, old (historic)" in row and "[b]A [/b] mine" in row and "V 2020" in row
    assert "featgraph" in output


def test_a_broken_recipe_hides_no_other(call, recipe):
    recipe("broken", "variants: {a: {base: debian:12, wheel: []}}")
    recipe("worse", "variants: [")
    result = call("list", "--json")
    assert isinstance(result.exception, UsageError) and "did you mean wheels" in result.exception.message
    assert "error: not valid YAML" in result.stderr
    assert "fused-attention" in [row["name"] for row in json.loads(result.stdout)]


def test_a_recipe_and_one_variant_as_text(call, recipe):
    text = call("show", "featgraph").stdout
    parts = ("SC 2020", "featgraph:cpu", "featgraph:cuda", "debian:11", "tvm 0.7.0", "728b829575e5 (v0.7.0)", "claim")
    assert [part for part in parts if part not in text] == []
    text = call("show", "featgraph:cpu").stdout
    assert "featgraph:cuda" not in text and "spmm:" in text and "spmm-cuda" not in text
    # What is unknown is not printed.
    recipe("mine", "variants: {a: {base: debian:12}}")
    titles = [line.split()[0] for line in call("show", "mine").stdout.splitlines() if line.strip()]
    assert titles == ["mine", "paper", "venue", "licence", "mine:a", "base"]


def test_the_json_of_a_recipe_has_extends_resolved(call, error):
    data = json.loads(call("show", "featgraph:cuda-debian", "--json").stdout)
    assert [*data["variants"]] == ["cuda-debian"] and data["default"] == "cpu"
    variant = data["variants"]["cuda-debian"]
    assert variant["pins"]["tvm"] == "0.7.0" and variant["pins"]["cuda"] == "11.2" and variant["for"] == "compile"
    assert variant["requires"]["memory"] == 4 * 1024**3
    assert data["paper"]["venue"] == "SC" and data["benchmarks"]["spmm"]["parse"]["expect"] == 18
    assert "did you mean faith?" in error(UsageError, "show", "fath").message


OWN = """\
{#
does: prints [b]the machine[/b].
after: [git]
options:
  graphics: {type: boolean, default: false, does: also draws}
#}
{% block final %}
RUN true
{% endblock %}
"""


def test_bundled_and_own_blocks(call, tmp_path, monkeypatch):
    (tmp_path / "recipes" / "blocks").mkdir(parents=True)
    (tmp_path / "recipes" / "blocks" / "hwloc.j2").write_text(OWN)
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "tool.j2").write_text(OWN)
    (tmp_path / "more" / "hwloc.j2").write_text("not read: the one beside the recipes comes first")
    monkeypatch.setenv("REPROKIT_BLOCKS", str(tmp_path / "more"))
    rows = {row["name"]: row for row in json.loads(call("list", "--blocks", "--json").stdout)}
    assert rows["make"]["file"] == "" and rows["make"]["options"]["products"]["required"]
    assert rows["hwloc"]["file"] == str(tmp_path / "recipes" / "blocks" / "hwloc.j2")
    assert rows["tool"]["after"] == ["git"]
    line = next(line for line in call("list", "--blocks").output.splitlines() if line.startswith("hwloc"))
    assert "[b]the machine[/b]" in line and "git" in line


def test_one_block_and_none(call, error, monkeypatch, tmp_path):
    text = call("show", "run").output
    assert "run (bundled)" in text and "| `commands` | list | required |" in text
    assert "It can be used several times." in text
    assert "did you mean cmake" in call("show", "cmaek").exception.message
    monkeypatch.setenv("REPROKIT_BLOCKS", str(tmp_path / "gone"))
    assert "REPROKIT_BLOCKS names no folder" in error(UsageError, "list", "--blocks").message


def test_the_schema_is_json_and_names_the_blocks(call):
    schema = json.loads(call("show", "--schema").stdout)
    assert "tvm" in schema["$defs"]["Block"]["anyOf"][0]["enum"]
    assert schema["properties"]["variants"]["description"]


def test_a_dockerfile_is_printed_written_or_json(call, tmp_path):
    printed = call("render", "featgraph:cpu").stdout
    result = call("render", "featgraph:cpu", "-o", "deep/my papers")
    assert (tmp_path / "deep/my papers/Dockerfile").read_text() == printed
    assert result.stdout == "" and "docker build -t featgraph:cpu 'deep/my papers'" in result.stderr
    data = json.loads(call("render", "featgraph:cpu", "--json").stdout)
    assert (data["recipe"], data["dockerfile"], data["blocks"][0][0]) == ("featgraph:cpu", printed, 1)
    assert json.loads(call("render", "featgraph:cpu", "-o", "x", "--json").stdout)["file"] == "x/Dockerfile"


def test_a_dockerfile_that_cannot_be(error, recipe, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    assert error(UsageError, "render", "featgraph:cpu", "-o", "file").where == "file"
    recipe("mine", "variants:\n  a:\n    base: debian:12\n    blocks: [aptt]\n")
    assert error(UsageError, "render", "mine").where.endswith("mine.yaml:6")

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("reprokit.image.render.Rendered.write", full)
    error(EngineError, "render", "featgraph:cpu", "-o", "d")


def test_topics_of_the_help(call, error):
    lines = [line.split() for line in call("help").stdout.splitlines()]
    topics = [line[0] for line in lines[1:]]
    assert topics == sorted(page.stem for page in (ROOT / "docs").glob("*.md") if page.stem != "index")
    assert all(len(line) > 1 for line in lines)
    assert call("help", "mirrors").stdout == (ROOT / "docs/mirrors.md").read_text()
    assert "--gpus" in call("help", "run").stdout  # a verb without a page
    unknown = error(UsageError, "help", "mirors")
    assert "did you mean mirrors?" in unknown.message and "recipes" in unknown.hint
    error(UsageError, "help", "../README")


@pytest.mark.slow
def test_a_terminal_shows_a_page_laid_out():
    text = shown("help", "completion", columns=70)
    assert "`" not in text and "|---|" not in text and "Completion in the shell" in text
    assert max(map(len, text.splitlines())) <= 70
