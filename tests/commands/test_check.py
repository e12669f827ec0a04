"""`reprokit check`: what it prints, its JSON, its exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from reprokit.errors import UsageError

Call = Callable[..., Result]
# The clashes that the project's notes met by hand: (pins, GPU), what the error must name, a pin that works.
CLASHES = [
    (["--pins", "cuda=10.2", "--gpu", "RTX 3090"], ["cuda=10.2", "gpu=RTX 3090 (sm_86)"], "cuda=11.1"),
    (["--pins", "tvm=0.7,llvm=12"], ["tvm=0.7", "llvm=12"], "llvm=11"),
    (
        ["--pins", "base=nvidia/cuda:11.3.0-devel-ubuntu18.04"],
        ["base=nvidia/cuda:11.3.0-devel-ubuntu18.04"],
        "base=nvidia/cuda:11.3.1-devel-ubuntu18.04",
    ),
    (["--pins", "gcc=12,cuda=11.8"], ["cuda=11.8", "gcc=12"], "gcc=11"),
    (["--pins", "torch=1.8.0", "--gpu", "H100", "--for", "run"], ["torch=1.8.0", "gpu=H100 (sm_90)"], "torch=2.1.0"),
]

RECIPE = """
name: reddit
paper: {title: T, venue: V, year: 2022, urls: {}, licence: none}
variants:
  cpu:
    base: debian:12
    pins: {python: "3.11", dgl: 1.1.2}
    needs_apis: ["dgl:RedditDataset.num_labels"]
    blocks: [python]
  fine:
    base: debian:12
    pins: {python: "3.11"}
    blocks: [python]
"""


def in_process(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
    """What a user starts, for what only a process of its own shows."""
    return subprocess.run(
        [sys.executable, "-m", "reprokit", "check", *args],
        capture_output=True, text=True, timeout=200, check=False, env={**os.environ, **env},
    )  # fmt: skip


@pytest.fixture
def check(call: Call) -> Call:
    return lambda *args: call("check", *args)


@pytest.mark.parametrize(("args", "subjects", "nearest"), CLASHES, ids=lambda v: str(v)[:40])
def test_the_clashes_of_the_notes(check: Call, args: list[str], subjects: list[str], nearest: str) -> None:
    done = check(*args, "--json")
    answer = json.loads(done.stdout)
    assert done.exit_code == 1
    assert set(answer) == {"ok", "findings"}
    assert answer["ok"] is False
    (finding,) = [f for f in answer["findings"] if f["severity"] == "error"]
    assert set(finding) == {"severity", "rule", "subjects", "reason", "nearest", "remedy", "sources"}
    assert nearest in finding["remedy"] and finding["rule"]
    assert finding["subjects"] == subjects
    assert nearest in finding["nearest"]
    assert finding["sources"]
    assert check(*(args[0], f"{args[1]}", *args[2:])).exit_code == 1


@pytest.fixture
def recipes(tmp_path):
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "reddit.yaml").write_text(RECIPE, encoding="utf-8")
    return tmp_path


@pytest.mark.usefixtures("recipes")
def test_removed_apis_that_a_recipe_needs(check: Call) -> None:
    done = check("reddit", "--json")
    answer = json.loads(done.stdout)
    (finding,) = [f for f in answer["findings"] if f["severity"] == "error"]
    assert done.exit_code == 1
    assert finding["recipe"] == "reddit:cpu"
    assert finding["subjects"] == ["dgl=1.1.2", "needs=dgl:RedditDataset.num_labels"]
    assert finding["nearest"] == ["dgl=0.9.1"]


@pytest.mark.usefixtures("recipes")
def test_one_summary_a_variant(check: Call) -> None:
    done = check("reddit")
    assert done.exit_code == 1
    assert "reddit:cpu: 1 error" in done.stdout
    assert done.stdout.rstrip().endswith("reddit:fine: ok")
    assert check("reddit:fine").exit_code == 0


@pytest.fixture
def historic(recipes):
    file = recipes / "recipes" / "reddit.yaml"
    text = file.read_text(encoding="utf-8").replace("cpu:\n", "as-published:\n    historic: true\n")
    file.write_text(text.replace("\nvariants:", "\ndefault: fine\nvariants:"), encoding="utf-8")
    return recipes


@pytest.mark.usefixtures("historic")
def test_a_historic_variant_does_not_count_where_its_recipe_is_named(check: Call) -> None:
    done = check("reddit")
    assert done.exit_code == 0
    assert "reddit:as-published: 1 error (historic: not counted)" in done.stdout
    answer = json.loads(check("reddit", "--json").stdout)
    assert answer["ok"] is True
    assert [f["historic"] for f in answer["findings"] if f["severity"] == "error"] == [True]


@pytest.mark.usefixtures("historic")
def test_a_historic_variant_counts_where_it_is_named(check: Call) -> None:
    done = check("reddit:as-published")
    assert done.exit_code == 1
    assert done.stdout.rstrip().endswith("reddit:as-published: 1 error")


@pytest.mark.usefixtures("historic")
@pytest.mark.slow
def test_a_historic_variant_is_left_out_where_nothing_is_named(check: Call) -> None:
    done = check()
    assert "as-published" not in done.stdout and "reddit:fine: ok" in done.stdout


def test_what_a_person_reads(check: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    done = check("--pins", "cuda=10.2", "--gpu", "3090")
    head, reason, *rest = done.stdout.splitlines()
    assert head == "error    cuda=10.2 \u00d7 gpu=RTX 3090 (sm_86)"
    assert "sm_86 needs CUDA 11.1" in " ".join([reason, *rest])
    assert any(line.strip() == "nearest: cuda=11.1" for line in rest)
    assert "[2 sources]" in done.stdout and "source: " not in done.stdout
    assert rest[-1] == "stack: 1 error"
    assert "\x1b" not in done.stdout


def test_sources_are_shown_where_they_are_asked_for(check: Call) -> None:
    done = check("--pins", "cuda=10.2", "--gpu", "3090", "--sources")
    assert "sources]" not in done.stdout
    assert sum(line.strip().startswith("source: ") for line in done.stdout.splitlines()) == 2


def test_solve_is_offered_where_no_single_pin_is_enough(check: Call) -> None:
    offer = "no single pin ends all errors: `reprokit solve --pins ...`, with the same options, finds pins that do"
    assert offer in check("--pins", "cuda=10.2,torch=1.8.0+cu102", "--gpu", "3090").stdout.splitlines()
    assert "solve" not in check("--pins", "cuda=10.2", "--gpu", "3090").stdout
    assert "solve" not in check("--pins", "cuda=11.8").stdout
    # No pins can help a driver that is too old for the GPU.
    none = check("--pins", "cuda=12.1,torch=2.1.0+cu121", "--gpu", "H100", "--driver", "418.39")
    assert "stack: 3 errors" in none.stdout and "solve" not in none.stdout


def test_solve_is_not_offered_for_what_is_no_matter_of_pins(check: Call, recipe) -> None:
    pins = 'pins: {python: "3.11", torch: "1.8.0", tvm: "0.7", llvm: "12"}'
    recipe("x", f"variants: {{v: {{base: 'debian:12', {pins}, blocks: [nosuch]}}}}\n")
    done = check("x")
    assert "unknown block" in done.stdout and "tvm=0.7" in done.stdout and "finds pins" not in done.stdout
    # What this machine lacks is a warning: it does not count as an error that no pin ends.
    recipe("x", f"variants: {{v: {{base: 'debian:12', {pins}, requires: {{memory: 900TiB}}}}}}\n")
    assert "`reprokit solve x:v`" in check("x").stdout


def test_wheels_are_compared_too(check: Call, recipe) -> None:
    recipe(
        "x",
        "variants: {v: {base: 'debian:12', pins: {python: '3.11'}, blocks: [python, wheels],"
        " wheels: ['matplotlib==3.7.1', 'numpy==2.4.6']}}\n",
    )
    (finding,) = json.loads(check("x", "--json").stdout)["findings"]
    assert (finding["rule"], finding["subjects"]) == ("known-clash", ["matplotlib=3.7.1", "numpy=2.4.6"])
    assert finding["reason"].endswith("(matplotlib 3.7.1 and numpy 2.4.6: stated under `wheels`)")


def test_the_build_that_was_assumed_is_named(check: Call) -> None:
    done = check("--pins", "torch=1.9.0,cuda=11.1", "--gpu", "3090")
    assert done.exit_code == 0
    assert "taken as torch 1.9.0+cu111, for the pinned CUDA" in done.stdout


@pytest.mark.slow
def test_a_narrow_encoding_is_enough() -> None:
    done = in_process("--pins", "cuda=10.2", "--gpu", "3090", PYTHONIOENCODING="ascii")
    assert done.stdout.startswith("error    cuda=10.2 x gpu=RTX 3090 (sm_86)\n")


@pytest.mark.slow
def test_a_good_stack_is_ok(check: Call) -> None:
    done = in_process("--pins", "cuda=11.8,gcc=11", "--gpu", "RTX 3090", "--driver", "525.60.13")
    assert (done.returncode, done.stdout, done.stderr) == (0, "stack: ok\n", "")
    assert json.loads(check("--pins", "cuda=11.8", "--json").stdout) == {"ok": True, "findings": []}


@pytest.mark.slow
def test_all_recipes_are_checked_where_none_is_named(check: Call) -> None:
    done = check("--json", "--gpu", "none")
    answer = json.loads(done.stdout)
    errors = [f for f in answer["findings"] if f["severity"] == "error"]
    # A recipe may ask for more memory or disk than this machine has.
    assert [f for f in errors if not any(s.startswith("host.") for s in f["subjects"])] == []
    assert done.exit_code == int(bool(errors)) and answer["ok"] is not bool(errors)


@pytest.mark.parametrize(
    ("args", "says", "hint"),
    [
        (["--pins", "cuad=11"], "unknown pin 'cuad'; did you mean cuda?", "`reprokit help fields` lists them"),
        (["--pins", "cuda=11.x"], "cuda=11.x is not a version", "11 stands for"),
        (["--pins", "cuda=$(id)"], "is not a version", ""),
        (["--pins", "cuda=11.8;id"], "is not a version", ""),
        (["--pins", "base={{7*7}}"], "is not an image reference", "base=debian:12"),
        (["--pins", "distro=debian:12;rm"], "is not a distribution", ""),
        (["--pins", "cuda"], "'cuda' is not a pin", "NAME=VERSION"),
        (["--pins", ""], "no pins are given", "--pins cuda"),
        (["--pins", "cuda=11.8,cuda=12.1"], "cuda is pinned twice", ""),
        (["--pins", "gcc=11+cu111"], "xformers, vllm, dgl, jaxlib have builds", "gcc=11"),
        (["--pins", "cuda=11.8", "--gpu", "RTX 3900"], "unknown GPU 'RTX 3900'", "did you mean"),
        (["--pins", "cuda=11.8", "--gpu", "4.4"], "no GPU has compute capability 4.4", "8.6"),
        (["--pins", "cuda=11.8", "--gpu", "none", "--gpu", "A100"], "--gpu none excludes", ""),
        (["--pins", "cuda=11.8", "--driver", "new"], "'new' is not a driver version", "470.57.02"),
        (["--pins", "cuda=11.8", "--for", "fun"], "--for fun is not a purpose", "compile, run, ptx, import"),
        (["featgraph", "--pins", "cuda=11.8"], "exclude each other", ""),
        (["no-such-recipe"], "unknown recipe", ""),
    ],
)
def test_wrong_usage_is_one_line_and_a_remedy(check: Call, args: list[str], says: str, hint: str) -> None:
    done = check(*args)
    assert isinstance(done.exception, UsageError) and done.exception.exit_code == 2
    assert done.output == ""
    assert says in done.exception.message.splitlines()[0]
    assert hint in done.exception.hint


def test_wrong_usage_as_a_user_sees_it() -> None:
    done = in_process("--pins", "cuad=11")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(
        "error: unknown pin 'cuad'; did you mean cuda? (--pins)\nhint: `reprokit help fields`"
    )
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_nothing_heavy_is_imported_for_pins() -> None:
    code = (
        "import sys\nfrom reprokit import cli\n"
        "cli.app(['check', '--pins', 'cuda=11.8,gcc=11'], standalone_mode=False)\n"
        "print([m for m in ('docker', 'jinja2', 'rich.table', 'reprokit.recipe.model') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=200, check=True)
    assert done.stdout == "stack: ok\n[]\n"


@pytest.mark.slow
def test_no_template_is_compiled_for_bundled_blocks() -> None:
    code = (
        "import sys\nfrom reprokit import cli\n"
        "cli.app(['check', 'fused-attention:cpu', '--json'], standalone_mode=False)\n"
        "sys.exit('jinja2' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=200, check=True)


def test_what_this_machine_lacks_is_a_warning(check: Call, recipes: Path) -> None:
    file = recipes / "recipes" / "reddit.yaml"
    large = "base: debian:12\n    requires: {memory: 900000GiB, disk: 900000GiB}"
    file.write_text(file.read_text().replace("base: debian:12", large))
    done = check("reddit:fine", "--gpu", "none", "--json")
    assert done.exit_code == 0
    found = [f for f in json.loads(done.stdout)["findings"] if f["rule"] in ("memory", "disk")]
    assert [f["severity"] for f in found] == ["warning", "warning"]


@pytest.mark.usefixtures("recipes")
@pytest.mark.parametrize(
    ("service", "why"),
    [
        ("{recipe: fne, command: [x], ports: [1]}", "the service db: unknown recipe 'fne'"),
        ("{recipe: served, command: [x], ports: [1]}", "the service db is served:cpu, which has services of its own"),
    ],
)
def test_a_services_recipe_that_is_unknown_or_leads_back(check: Call, recipes: Path, service: str, why: str) -> None:
    text = RECIPE.partition("variants:")[0].replace("reddit", "served")
    text += f"variants:\n  cpu:\n    base: debian:12\n    services:\n      db: {service}\n"
    (recipes / "recipes" / "served.yaml").write_text(text)
    done = check("served", "--json")
    (finding,) = [f for f in json.loads(done.stdout)["findings"] if f["severity"] == "error"]
    assert done.exit_code == 1 and finding["reason"].startswith(why)
    assert finding["subjects"] == [f"{recipes}/recipes/served.yaml:8"]
