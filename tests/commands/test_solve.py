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


def test_a_change_a_line_with_the_finding_that_forced_it(call) -> None:
    done = call("solve", *CLASH)
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [
        "cuda   10.2 -> 11.1",
        "       because nvcc of CUDA 10.2.89 accepts gcc up to 8, not 9",
        "gcc    9",
        "torch  1.8.0+cu102 -> 1.8.0+cu111",
        "       because torch 1.8.0 (CUDA 10.2) has kernels for sm_37, sm_50, sm_60, sm_70 and no PTX: nothing in it "
        "runs on sm_86",
        "2 pins changed; `reprokit check` of them: ok",
    ]


def test_json(call) -> None:
    answer = json.loads(call("solve", *CLASH, "--json").stdout)
    assert set(answer) == {"ok", "pins", "changed", "core"}
    assert answer["ok"] is True and answer["core"] == []
    assert answer["pins"] == {"cuda": "11.1", "gcc": "9", "torch": "1.8.0+cu111"}
    assert [{**change, "because": ""} for change in answer["changed"]] == [
        {"pin": "cuda", "from": "10.2", "to": "11.1", "because": ""},
        {"pin": "torch", "from": "1.8.0+cu102", "to": "1.8.0+cu111", "because": ""},
    ]
    assert all(change["because"] for change in answer["changed"])


def test_pins_that_fit_stay(call) -> None:
    done = call("solve", "--pins", "cuda=11.8,gcc=11")
    assert (done.exit_code, done.stdout.splitlines()[-1]) == (0, "nothing to change; `reprokit check` of them: ok")


def test_what_may_change_can_be_chosen(call) -> None:
    kept = json.loads(call("solve", "--pins", "tvm=0.7,llvm=12", "--keep", "llvm", "--json").stdout)
    only = json.loads(call("solve", "--pins", "tvm=0.7,llvm=12", "--change", "llvm", "--json").stdout)
    assert [change["pin"] for change in kept["changed"]] == ["tvm"]
    assert [change["pin"] for change in only["changed"]] == ["llvm"]


def test_a_core_where_nothing_fits(call) -> None:
    args = ["solve", "--pins", "cuda=10.2,gcc=8,cmake=3.18", "--gpu", "RTX 3090", "--keep", "cuda"]
    done = call(*args)
    assert done.exit_code == 1
    assert done.stdout.startswith("these cannot go together: cuda=10.2, gpu=RTX 3090 (sm_86)\n  nvcc of CUDA 10.2")
    answer = json.loads(call(*args, "--json").stdout)
    assert answer == {"ok": False, "pins": {}, "changed": [], "core": ["cuda=10.2", "gpu=RTX 3090 (sm_86)"]}


def test_an_answer_becomes_a_variant_that_passes(call, recipe, tmp_path) -> None:
    recipe("x", VARIANTS)
    done = call("solve", "x:old", "--write", "works")
    assert "wrote the variant works" in done.stdout
    text = (tmp_path / "recipes/x.yaml").read_text()
    assert "# the README's" in text and text.endswith("\n# the end\ndefault: new\n")
    assert call("check", "x:works").exit_code == 0
    assert "historic" not in call("check", "x").stdout.splitlines()[-1]


def test_a_variant_that_was_not_written_is_named(call, recipe, tmp_path) -> None:
    recipe("x", VARIANTS)
    before = (tmp_path / "recipes/x.yaml").read_text()
    done = call("solve", "x:old", "--write", "works", "--keep", "cuda,gcc")
    assert done.exit_code == 1 and "the variant works was not written: no pins fit" in done.stderr
    call("solve", "x:old", "--write", "works")
    fits = call("solve", "x:works", "--write", "again")
    assert fits.exit_code == 0, fits.output
    assert "the variant again was not written: x:works fits as it is" in fits.stderr
    assert "again" not in (tmp_path / "recipes/x.yaml").read_text() != before


@pytest.mark.parametrize(
    ("args", "says"),
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
def test_wrong_usage(call, recipe, tmp_path, args: list[str], says: str) -> None:
    recipe("x", VARIANTS)
    before = (tmp_path / "recipes/x.yaml").read_text()
    assert says in str(call("solve", *args).exception)
    assert (tmp_path / "recipes/x.yaml").read_text() == before
