"""The recipe of a decision."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from reprokit.compat.facts import bundled
from reprokit.importing.decision import Choice, Decision, PythonBase, Versions
from reprokit.importing.draft import draft
from reprokit.recipe.load import load_text

DECISION = Decision("tool", date(2023, 7, 1), PythonBase("debian:12", "3.11"), Choice("debian:12"))


@pytest.mark.parametrize(
    ("cuda", "version", "block", "pin"),
    [
        ("", "2.0.1", {"cuda": "11.7"}, "2.0.1"),
        ("11.8", "2.1.0", {}, "2.1.0+cu118"),  # PyPI's has another major version of CUDA
        ("", "99.0", None, "99.0"),  # the CUDA of its wheel, which the block asserts, is not known
    ],
)
def test_torch_is_installed_by_its_block(cuda, version, block, pin):
    decision = replace(DECISION, pins={"cuda": Choice(cuda), "gcc": Choice("11")} if cuda else {})
    text = draft(decision, Versions({"torch": version, "numpy": "1.26.4"}), "", "", bundled())
    variant = next(iter(load_text(text, "tool.yaml", "tool").variants.values()))
    blocks = {used.name: used.options for used in variant.blocks}
    assert variant.pins["torch"] == pin and blocks.get("torch") == block
    assert variant.wheels == ([] if block is not None else [f"torch=={pin}"]) + ["numpy==1.26.4"]
    assert "torch" not in blocks or [*blocks].index("torch") < [*blocks].index("wheels")


def test_a_compiled_project_is_also_whole_where_its_tests_run():
    project = replace(
        DECISION, project="", modules=("_private", "tool"), compiled=(Choice("cython"),), pins={"gcc": Choice("12")}
    )
    for decision, options in (
        (project, {"source": "tool", "in_place": True}),
        (replace(project, project="a-tool", compiled=()), {"source": "tool", "package": "a-tool"}),
    ):
        text = draft(decision, Versions({}), "https://forge.test/a/tool", "0" * 40, bundled())
        variant = next(iter(load_text(text, "tool.yaml", "tool").variants.values()))
        blocks = {used.name: used.options for used in variant.blocks}
        assert blocks["extension_package"] == options and blocks["imports"] == {"modules": ["tool"]}
    assert "extension_package" not in draft(
        replace(project, project=None), Versions({}), "https://forge.test/a/tool", "0" * 40, bundled()
    )


@pytest.mark.parametrize(
    ("fields", "python", "tried"),
    [
        ({"imports": {"yaml": "pyyaml"}}, "3.11", "import yaml"),
        ({"project": "tool", "modules": ("tool",)}, "3.11", "import tool"),
        ({}, "3.11", 'from importlib.metadata import version; [version(name) for name in ("attrs",)]'),
        ({}, "3.6", "import sys"),
        ({"requirements": {}}, "3.11", "import sys"),
    ],
)
def test_the_smoke_test_tries_what_is_there(fields, python, tried):
    needs = {"requirements": {"attrs": Choice("attrs")}}
    decision = replace(DECISION, base=PythonBase("debian:12", python), **(needs | fields))
    text = draft(
        decision, Versions({"attrs": "23.1.0", "other": "1"}), "https://forge.test/a/tool", "0" * 40, bundled()
    )
    [smoke] = load_text(text, "tool.yaml", "tool").smoke
    assert smoke.command.startswith(f"python3 -c '{tried}; print(") and smoke.expect
    assert ("which command shows that the image works?" in text) == (tried == "import sys")
