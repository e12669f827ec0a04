"""The recipe of a decision, and which build of torch it has."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from reprokit.compat.facts import bundled
from reprokit.importing.decision import Choice, Decision, PythonBase, Versions
from reprokit.importing.draft import draft
from reprokit.importing.model import Origin, Statement
from reprokit.importing.system_choice import stated_cuda, torch_build, without_index
from reprokit.recipe.load import load_text
from reprokit.recipe.model import Variant

DECISION = Decision("tool", date(2023, 7, 1), PythonBase("debian:12", "3.11"), Choice("debian:12"))
OLDER = Decision("tool", date(2022, 3, 1), PythonBase("debian:11", "3.9"), Choice("debian:11"))
GCC = {"gcc": Choice("12")}


def choices(*values: str, file: str = "environment.yml") -> tuple[Choice, ...]:
    """Choices from the lines of a file."""
    return tuple(Choice(value, (Origin(file, line),)) for line, value in enumerate(values, 1))


def drafted(decision: Decision, cloned: bool = False, **pins: str) -> tuple[str, Variant]:
    """The text of the recipe, and its only variant; `cloned` gives it the commit of a repository."""
    source = ("https://forge.test/a/tool", "0" * 40) if cloned else ("", "")
    text = draft(decision, Versions(pins), *source, bundled())
    (variant,) = load_text(text, "tool.yaml", "tool").variants.values()
    return text, variant


def blocks(variant: Variant) -> dict[str, dict[str, object]]:
    return {used.name: used.options for used in variant.blocks}


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
    variant = drafted(decision, torch=version, numpy="1.26.4")[1]
    assert variant.pins["torch"] == pin and blocks(variant).get("torch") == block
    assert variant.wheels == ([] if block is not None else [f"torch=={pin}"]) + ["numpy==1.26.4"]
    names = [*blocks(variant)]
    assert "torch" not in names or names.index("torch") < names.index("wheels")


def test_a_package_that_shares_a_pins_name_is_no_pin():
    variant = drafted(DECISION, clang="14.0", apex="0.9.10", numpy="1.26.4")[1]
    assert variant.pins == {"distro": "debian:12", "python": "3.11", "numpy": "1.26.4"}
    assert {"clang==14.0", "apex==0.9.10"} <= set(variant.wheels)


@pytest.mark.parametrize("title", ["Yes", "on", "12:30", "2020-01-01", "1.5", "~", "A title: of *two* parts", "tool"])
def test_a_title_is_the_text_that_was_read(title):
    text = drafted(replace(DECISION, title=Choice(title)))[0]
    assert load_text(text, "tool.yaml", "tool").paper.title == title


@pytest.mark.parametrize(("compiled", "pins"), [("c", {"cmake": "3.22.1"}), ("cmake", {})])
def test_a_project_that_cmake_builds_has_make(compiled, pins):
    variant = drafted(replace(DECISION, project="tool", compiled=(Choice(compiled),), pins=GCC), True, **pins)[1]
    assert blocks(variant)["extension_package"]["packages"] == ["make"]


def test_a_compiled_project_is_also_complete_where_its_tests_run():
    project = replace(DECISION, project="", modules=("_private", "tool"), compiled=(Choice("cython"),), pins=GCC)
    variant = drafted(project, True)[1]
    assert blocks(variant)["extension_package"] == {"source": "tool", "in_place": True}
    assert blocks(variant)["imports"] == {"modules": ["tool"]}
    variant = drafted(replace(project, project="a-tool", compiled=()), True)[1]
    assert blocks(variant)["extension_package"] == {"source": "tool", "package": "a-tool", "in_place": True}
    assert "extension_package" not in drafted(replace(project, project=None), True)[0]


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
def test_the_smoke_test_tries_what_is_installed(fields, python, tried):
    fields = {"requirements": {"attrs": Choice("attrs")}} | fields
    text = drafted(replace(DECISION, base=PythonBase("debian:12", python), **fields), True, attrs="23.1.0", other="1")[
        0
    ]
    [smoke] = load_text(text, "tool.yaml", "tool").smoke
    assert smoke.command.startswith(f"python3 -c '{tried}; print(") and smoke.expect
    assert ("which command shows that the image works?" in text) == (tried == "import sys")


def test_a_folder_is_imported_from_its_packages_and_asks_for_what_a_clone_has():
    compiled = (Choice("c", (Origin("setup.py", 3),)),)
    project = replace(DECISION, project="tool", modules=("tool",), python_paths=("src",), compiled=compiled)
    text, variant = drafted(replace(project, submodules=True))
    assert variant.env == {"PYTHONPATH": "/workspace/src"}
    assert "build it in the workspace (setup.py:3)\n" in text and "git submodule update" in text
    text = drafted(replace(project, submodules=True), cloned=True)[0]
    assert "in the workspace" not in text and "git submodule" not in text


def test_versions_of_lock_files_that_lost_have_their_line():
    locked = {"attrs": ("21.2", "22.1"), "idna": ("3.2", "3.3"), "torch": ("2.0.0",)}
    decision = replace(
        DECISION,
        requirements={"attrs": Choice("attrs>=22,<23"), "torch": Choice("torch")},
        locked={name: choices(*versions, file="poetry.lock") for name, versions in locked.items()},
    )
    text = drafted(decision, attrs="22.2", idna="3.3", torch="2.0.1")[0]
    comments = [line.strip() for line in text.splitlines() if line.strip().startswith("# not ")]
    fits = "it does not fit the others, or has no wheel here"
    assert comments == [
        f"# not 2.0.0 (poetry.lock:1): {fits}",
        "# not 21.2 (poetry.lock:1): attrs>=22,<23 is required",
        f"# not 22.1 (poetry.lock:2): {fits}",
    ]


@pytest.mark.parametrize(
    ("torch", "cuda", "pin", "index", "lost"),
    [
        ("1.9.0", ["==11.1.*"], "1.9.0+cu111", "cu111", []),
        ("1.9.0", ["==11.1.1"], "1.9.0+cu111", "cu111", []),
        ("1.9.0", ["==10.2.*"], "1.9.0", "", []),
        ("1.9.0", [">=10.1"], "1.9.0", "", []),  # PyPI's own fits
        ("1.9.0", [">=11"], "1.9.0+cu111", "cu111", []),
        ("1.9.0", ["==11.4.*", "==10.1.*"], "1.9.0+cu111", "cu111", ["CUDA ==11.4.*", "CUDA ==10.1.*"]),
        ("1.9.0", ["==11.3.*", "==11.1.*"], "1.9.0+cu111", "cu111", ["CUDA ==11.3.*"]),  # the first that has a build
        ("1.9.0", ["==13.0.*"], "1.9.0", "", ["CUDA ==13.0.*"]),
        ("1.9.0+cu111", ["==11.1.*", "==10.2.*"], "1.9.0+cu111", "", ["CUDA ==10.2.*"]),
        ("1.9.0+cpu", ["==11.1.*"], "1.9.0+cpu", "", ["CUDA ==11.1.*"]),
        ("99.0", ["==11.1.*"], "99.0", "", ["CUDA ==11.1.*"]),  # its builds are not known
        ("1.9.0", [], "1.9.0", "", []),
    ],
)
def test_the_stated_cuda_chooses_the_build(torch, cuda, pin, index, lost):
    build = torch_build(replace(OLDER, cuda=choices(*cuda)), Versions({"torch": torch}), bundled())
    assert build.version == pin and build.index.rpartition("/")[2] == index
    assert [each.value for each in build.choice.lost] == lost


def test_code_for_another_cuda_keeps_the_build_of_an_index_that_cannot_be_reached():
    decision = replace(OLDER, pins={"cuda": Choice("11.8")})
    build = torch_build(decision, Versions({"torch": "2.7.0"}), bundled())
    kept, question = without_index(build, "refused", decision, bundled())
    assert kept == build and build.version == "2.7.0+cu118"
    assert "PyPI's torch 2.7.0 is for CUDA 12.6: name a mirror in REPROKIT_WHEELS_MIRRORS" in question.text


def test_the_weightiest_file_is_asked_first():
    rows = (
        ("==10.2.*", "README.md", "readme", "run"),
        ("==11.1.*", "environment.yml", "environment", "run"),
        ("==9.0.*", "docs/environment.yml", "environment", "other"),
        ("==11.3.*", "Dockerfile", "dockerfile", "run"),
    )
    statements = [Statement("cuda", value, Origin(file, 1), format, scope) for value, file, format, scope in rows]
    assert [choice.value for choice in stated_cuda(statements)] == ["==11.1.*", "==11.3.*", "==10.2.*"]


@pytest.mark.parametrize(
    ("subject", "value", "cuda"),
    [
        ("package", "torch==1.9.0+cu111", ["==11.1.*"]),
        ("package", "torch==1.9.0+cpu", []),
        ("package", "other==1.9.0+cu111", []),
        ("index", "https://i.example/whl/cu92/", ["==9.2.*"]),
        ("index", "https://i.example/whl/torch_stable.html", []),
        ("index", "https://i.example/whl/cu11x", []),
    ],
)
def test_a_build_or_an_index_of_torch_states_a_cuda(subject, value, cuda):
    statement = Statement(subject, value, Origin("requirements.txt", 1), "requirements")
    assert [choice.value for choice in stated_cuda([statement])] == cuda


def test_the_recipe_has_the_build_its_index_and_what_lost():
    vision = {"torchvision": Choice("torchvision")}
    decision = replace(OLDER, requirements=vision, cuda=choices("==11.1.*", "==10.2.*"))
    text, variant = drafted(decision, **{"torch": "1.9.0", "torchvision": "0.10.0", "nvidia-nccl-cu10": "2.8"})
    assert variant.pins["torch"] == "1.9.0+cu111" and variant.wheels == ["torchvision==0.10.0+cu111"]
    assert variant.wheel_indexes == ["https://download.pytorch.org/whl/cu111"]
    assert blocks(variant)["torch"] == {}
    assert "# environment.yml:1; built for CUDA 11.1, as stated\n" in text
    assert "# not CUDA ==10.2.* (environment.yml:2): torch 1.9.0 has builds for 10.2, 11.1" in text


@pytest.mark.parametrize(
    ("torch", "torchaudio", "pinned"),
    [("1.9.0", "0.9.0", "torchaudio==0.9.0"), ("1.10.0", "0.10.0", "torchaudio==0.10.0+cu111")],
)
def test_torchaudio_comes_from_the_build_of_torch_once_it_has_builds(torch, torchaudio, pinned):
    decision = replace(OLDER, requirements={"torchaudio": Choice("torchaudio")}, cuda=choices("==11.1.*"))
    assert drafted(decision, torch=torch, torchaudio=torchaudio)[1].wheels == [pinned]


def test_a_cuda_that_nothing_takes_is_listed():
    why = "no code is compiled for CUDA here, and torch is not installed"
    text = drafted(replace(OLDER, cuda=choices("==11.1.*")), numpy="1.22.2")[0]
    assert f"# not used: CUDA ==11.1.* (environment.yml:1): {why}\n" in text
