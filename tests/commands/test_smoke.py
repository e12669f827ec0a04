"""`reprokit smoke`: one line a variant, a report that CI reads, and nothing left behind."""

from __future__ import annotations

import json
from xml.etree import ElementTree as xml

import pytest

from reprokit import paths
from reprokit.engine import Engine
from reprokit.errors import UsageError
from tests.support.names import unique

HEAD = "paper: {title: A paper, venue: none, year: 2026, licence: none}\n"
SMOKE = unique("smoke")
RECIPES = {
    f"{SMOKE}-good": """
variants: {cpu: {base: "debian:12"}}
smoke:
  - {command: cat /etc/os-release, expect: ^VERSION_ID="12"}
  - {command: nvidia-smi, gpu: true}
""",
    f"{SMOKE}-bad": """
variants: {cpu: {base: "debian:12"}}
smoke:
  - {command: "echo '<working>'; exit 5"}
  - {command: "echo fine", expect: fine}
""",
    f"{SMOKE}-gpu": """
variants: {cuda: {base: "debian:12", requires: {gpu: required}}}
smoke: [{command: "true"}]
""",
    f"{SMOKE}-pins": """
variants: {cpu: {base: "debian:12", pins: {tvm: "0.7", llvm: "12"}}}
""",
}


@pytest.fixture
def recipes(tmp_path, monkeypatch):
    """Those recipes and no others."""
    (tmp_path / "recipes").mkdir()
    for name, text in RECIPES.items():
        (tmp_path / "recipes" / f"{name}.yaml").write_text(f"name: {name}\n{HEAD}{text}")
    monkeypatch.setattr(paths, "recipe_dirs", lambda: [tmp_path / "recipes"])
    return tmp_path / "recipes"


@pytest.fixture
def docker(tidied) -> Engine:
    for name in RECIPES:
        docker = tidied(name)
    return docker


def containers(docker: Engine) -> list[str]:
    return [c.name for name in RECIPES for c in docker.containers([f"reprokit.recipe={name}"])]


def test_all_that_this_host_can_run_is_tried_and_one_failure_stops_no_other(call, recipes, docker, tmp_path):
    (recipes / f"{SMOKE}-torn.yaml").write_text("name: [")
    result = call("smoke", "--junit", "reports/smoke.xml")
    assert result.exit_code == 1
    lines = {line.split()[1]: line for line in result.stdout.splitlines() if line[:4] in ("pass", "fail", "skip")}
    assert {label: line.split()[0] for label, line in lines.items()} == {
        f"{SMOKE}-bad:cpu": "fail",
        f"{SMOKE}-good:cpu": "pass",
        f"{SMOKE}-gpu:cuda": "skip",
        f"{SMOKE}-pins:cpu": "fail",
        f"{SMOKE}-torn": "fail",
    }
    assert lines[f"{SMOKE}-bad:cpu"].endswith("exit 5: exit code 5: <working>")
    assert lines[f"{SMOKE}-good:cpu"].endswith("skipped 1: it needs a GPU, and this machine has none")
    assert lines[f"{SMOKE}-gpu:cuda"].endswith("this machine has no GPU")
    assert "llvm" in lines[f"{SMOKE}-pins:cpu"]
    assert "not valid YAML" in lines[f"{SMOKE}-torn"]
    assert containers(docker) == []
    assert docker.image(f"reprokit/{SMOKE}-pins:cpu") is None

    root = xml.parse(tmp_path / "reports" / "smoke.xml").getroot()
    assert root.attrib["failures"] == "3" and root.attrib["skipped"] == "2"
    failure = root.find(f"./testsuite[@name='{SMOKE}-bad:cpu']/testcase/failure")
    assert failure is not None and failure.text == "<working>\n"


def test_named_variants_are_tried_even_where_their_gpu_is_missing(call, recipes, docker):
    result = call("smoke", f"{SMOKE}-gpu", f"{SMOKE}-good:cpu", "--json")
    assert result.exit_code == 0, result.stdout
    data = json.loads(result.stdout)
    assert data["ok"] and [r["status"] for r in data["results"]] == ["pass", "pass"]
    names = [[step["name"] for step in r["steps"]] for r in data["results"]]
    assert names == [
        ["check", "build", "container", "true"],
        ["check", "build", "container", "cat /etc/os-release", "nvidia-smi"],
    ]
    assert containers(docker) == []


def test_bad_input_and_nothing_to_run(call, recipes, docker, error, tmp_path):
    error(UsageError, "smoke", f"{SMOKE}-goood")
    error(UsageError, "smoke", f"{SMOKE}-good:cuda")
    (tmp_path / "reports").write_text("a file where the folder should be")
    wrong = error(UsageError, "smoke", f"{SMOKE}-good", "--junit", "reports/smoke.xml")
    assert wrong.where == "reports/smoke.xml"
    assert docker.image(f"reprokit/{SMOKE}-good:cpu") is None
    for name in RECIPES:
        if not name.endswith("-gpu"):
            (recipes / f"{name}.yaml").unlink()
    assert call("smoke").exit_code == 3
