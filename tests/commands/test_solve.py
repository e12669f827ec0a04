"""`reprokit solve`: what it prints, its JSON, what it writes."""

from __future__ import annotations

import json

import pytest

CLASH = ["--pins", "cuda=10.2,gcc=9,torch=1.8.0+cu102", "--gpu", "RTX 3090"]
VARIANTS = """
variants:
  old:  # the README's
    historic: true
    base: ubuntu:20.04
    pins: {cuda: "10.2", gcc: "9", python: "3.8"}
    blocks: [python]
  new:
    base: ubuntu:20.04
    pins: {python: "3.8"}
    blocks: [python]

# the end
default: new
"""


@pytest.fixture
def solved(call):
    """The answer as JSON."""
    return lambda *args: json.loads(call("solve", *args, "--json").stdout)


def test_a_change_a_line_with_the_finding_that_forced_it(call, solved):
    done = call("solve", *CLASH)
    assert done.exit_code == 0
    gcc = "nvcc of CUDA 10.2.89 accepts gcc up to 8, not 9"
    torch = "torch 1.8.0 (CUDA 10.2) has kernels for sm_37, sm_50, sm_60, sm_70 and no PTX: nothing in it runs on sm_86"
    assert done.stdout.splitlines() == [
        "cuda   10.2 -> 11.1",
        f"       because {gcc}",
        "gcc    9",
        "torch  1.8.0+cu102 -> 1.8.0+cu111",
        f"       because {torch}",
        "2 pins changed; `reprokit check` of them: ok",
    ]
    changed = [
        {"pin": "cuda", "from": "10.2", "to": "11.1", "because": gcc},
        {"pin": "torch", "from": "1.8.0+cu102", "to": "1.8.0+cu111", "because": torch},
    ]
    pins = {"cuda": "11.1", "gcc": "9", "torch": "1.8.0+cu111"}
    assert solved(*CLASH) == {"ok": True, "pins": pins, "changed": changed, "core": []}


def test_pins_that_fit_stay_and_what_may_change_can_be_chosen(call, solved):
    done = call("solve", "--pins", "cuda=11.8,gcc=11")
    assert (done.exit_code, done.stdout.splitlines()[-1]) == (0, "nothing to change; `reprokit check` of them: ok")
    for option, pin in (("--keep", "tvm"), ("--change", "llvm")):
        answer = solved("--pins", "tvm=0.7,llvm=12", option, "llvm")
        assert [change["pin"] for change in answer["changed"]] == [pin]


def test_a_core_where_nothing_fits(call, solved):
    args = ["--pins", "cuda=10.2,gcc=8,cmake=3.18", "--gpu", "RTX 3090", "--keep", "cuda"]
    done = call("solve", *args)
    assert done.exit_code == 1
    assert done.stdout.startswith("these cannot go together: cuda=10.2, gpu=RTX 3090 (sm_86)\n  nvcc of CUDA 10.2")
    core = ["cuda=10.2", "gpu=RTX 3090 (sm_86)"]
    assert solved(*args) == {"ok": False, "pins": {}, "changed": [], "core": core}


def test_an_answer_becomes_a_variant_that_passes(call, recipe):
    file = recipe("x", VARIANTS)
    before = file.read_text()
    done = call("solve", "x:old", "--write", "works", "--keep", "cuda,gcc")
    assert done.exit_code == 1 and "the variant works was not written: no pins fit" in done.stderr
    assert file.read_text() == before
    assert "wrote the variant works" in call("solve", "x:old", "--write", "works").stdout
    text = file.read_text()
    assert "# the README's" in text and text.endswith("\n# the end\ndefault: new\n")
    assert call("check", "x:works").exit_code == 0
    assert "historic" not in call("check", "x").stdout.splitlines()[-1]
    done = call("solve", "x:works", "--write", "again")
    assert (done.exit_code, file.read_text()) == (0, text)
    assert "the variant again was not written: x:works fits as it is" in done.stderr


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "give a recipe or --pins"),
        (["x", "--pins", "cuda=11"], "give a recipe or --pins"),
        (["--pins", "cuda=11.8", "--keep", "gcc"], "'gcc' is not a pin of this stack"),
        (["--pins", "cuda=11.8", "--change", "gcc"], "'gcc' is not a pin of this stack"),
        (["--pins", "cuda=11.8", "--write", "y"], "--write needs a recipe"),
        (["x:old", "--write", "new"], "x has a variant 'new' already"),
        (["x:old", "--write", "a: {b"], "not valid YAML"),
        (["x:old", "--write", "Upper Case"], "Upper Case"),
    ],
)
def test_wrong_usage(call, recipe, args, message):
    file = recipe("x", VARIANTS)
    before = file.read_text()
    assert message in str(call("solve", *args).exception)
    assert file.read_text() == before
