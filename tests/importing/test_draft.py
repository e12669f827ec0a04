"""The recipe of a decision."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from reprokit.compat.facts import bundled
from reprokit.importing.decision import Choice, Decision, PythonBase, Versions
from reprokit.importing.draft import draft
from reprokit.importing.model import Origin
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


def test_a_package_that_shares_a_pins_name_is_no_pin():
    text = draft(DECISION, Versions({"clang": "14.0", "apex": "0.9.10", "numpy": "1.26.4"}), "", "", bundled())
    variant = load_text(text, "tool.yaml", "tool").variants["cpu"]
    assert variant.pins == {"distro": "debian:12", "python": "3.11", "numpy": "1.26.4"}
    assert {"clang==14.0", "apex==0.9.10"} <= set(variant.wheels)


@pytest.mark.parametrize("title", ["Yes", "on", "12:30", "2020-01-01", "1.5", "~", "A title: of *two* parts", "tool"])
def test_a_title_is_the_text_that_was_read(title):
    text = draft(replace(DECISION, title=Choice(title)), Versions({}), "", "", bundled())
    assert load_text(text, "tool.yaml", "tool").paper.title == title


@pytest.mark.parametrize(("compiled", "pins"), [("c", {"cmake": "3.22.1"}), ("cmake", {})])
def test_a_project_that_cmake_builds_has_make(compiled, pins):
    project = replace(DECISION, project="tool", compiled=(Choice(compiled),), pins={"gcc": Choice("12")})
    text = draft(project, Versions(pins), "https://forge.test/a/tool", "0" * 40, bundled())
    (package,) = (
        used.options
        for used in load_text(text, "tool.yaml", "tool").variants["cpu"].blocks
        if used.name == "extension_package"
    )
    assert package["packages"] == ["make"]


def test_a_compiled_project_is_also_whole_where_its_tests_run():
    project = replace(
        DECISION, project="", modules=("_private", "tool"), compiled=(Choice("cython"),), pins={"gcc": Choice("12")}
    )
    for decision, options in (
        (project, {"source": "tool", "in_place": True}),
        (
            replace(project, project="a-tool", compiled=()),
            {"source": "tool", "package": "a-tool", "in_place": True},
        ),
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


def test_a_folder_is_imported_from_its_packages_and_asks_for_what_a_clone_has():
    decision = replace(
        DECISION,
        project="tool",
        modules=("tool",),
        python_paths=("src",),
        compiled=(Choice("c", (Origin("setup.py", 3),)),),
        submodules=True,
    )
    text = draft(decision, Versions({}), "", "", bundled())
    variant = load_text(text, "tool.yaml", "tool").variants["cpu"]
    assert variant.env == {"PYTHONPATH": "/workspace/src"}
    assert "build it in the workspace (setup.py:3)\n" in text and "git submodule update" in text
    address = draft(decision, Versions({}), "https://forge.test/a/tool", "0" * 40, bundled())
    assert "in the workspace" not in address and "git submodule" not in address


def test_versions_of_lock_files_that_lost_have_their_line():
    def locked(*versions: str) -> tuple[Choice, ...]:
        return tuple(Choice(v, (Origin("poetry.lock", line),)) for line, v in enumerate(versions, 1))

    decision = replace(
        DECISION,
        requirements={"attrs": Choice("attrs>=22,<23"), "torch": Choice("torch")},
        locked={"attrs": locked("21.2", "22.1"), "idna": locked("3.2", "3.3"), "torch": locked("2.0.0")},
    )
    pins = {"attrs": "22.2", "idna": "3.3", "torch": "2.0.1"}
    text = draft(decision, Versions(pins), "", "", bundled())
    comments = [line.strip() for line in text.splitlines() if line.strip().startswith("# not ")]
    fits = "it does not fit the others, or has no wheel here"
    assert comments == [
        f"# not 2.0.0 (poetry.lock:1): {fits}",
        "# not 21.2 (poetry.lock:1): attrs>=22,<23 is required",
        f"# not 22.1 (poetry.lock:2): {fits}",
    ]
