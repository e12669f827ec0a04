"""`reprokit check`: what it prints, its JSON, its exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

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


def check(*args: str, cwd: object = None, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "reprokit", "check", *args],
        capture_output=True, text=True, timeout=60, check=False, cwd=cwd, env={**os.environ, **env},
    )  # fmt: skip


@pytest.mark.parametrize(("args", "subjects", "nearest"), CLASHES, ids=lambda v: str(v)[:40])
def test_the_clashes_of_the_notes(args: list[str], subjects: list[str], nearest: str) -> None:
    done = check(*args, "--json")
    answer = json.loads(done.stdout)
    assert done.returncode == 1
    assert set(answer) == {"ok", "findings"}
    assert answer["ok"] is False
    (finding,) = [f for f in answer["findings"] if f["severity"] == "error"]
    assert set(finding) == {"severity", "subjects", "reason", "nearest", "sources"}
    assert finding["subjects"] == subjects
    assert nearest in finding["nearest"]
    assert finding["sources"]
    assert check(*(args[0], f"{args[1]}", *args[2:])).returncode == 1


@pytest.fixture
def recipes(tmp_path):
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "reddit.yaml").write_text(RECIPE, encoding="utf-8")
    return tmp_path


def test_removed_apis_that_a_recipe_needs(recipes) -> None:
    done = check("reddit", "--json", cwd=recipes)
    answer = json.loads(done.stdout)
    (finding,) = [f for f in answer["findings"] if f["severity"] == "error"]
    assert done.returncode == 1
    assert finding["recipe"] == "reddit:cpu"
    assert finding["subjects"] == ["dgl=1.1.2", "needs=dgl:RedditDataset.num_labels"]
    assert finding["nearest"] == ["dgl=0.9.1"]


def test_one_summary_a_variant(recipes) -> None:
    done = check("reddit", cwd=recipes)
    assert done.returncode == 1
    assert "reddit:cpu: 1 error" in done.stdout
    assert done.stdout.rstrip().endswith("reddit:fine: ok")
    assert check("reddit:fine", cwd=recipes).returncode == 0


@pytest.fixture
def historic(recipes):
    file = recipes / "recipes" / "reddit.yaml"
    text = file.read_text(encoding="utf-8").replace("cpu:\n", "as-published:\n    historic: true\n")
    file.write_text(text.replace("\nvariants:", "\ndefault: fine\nvariants:"), encoding="utf-8")
    return recipes


def test_a_historic_variant_does_not_count_where_its_recipe_is_named(historic) -> None:
    done = check("reddit", cwd=historic)
    assert done.returncode == 0
    assert "reddit:as-published: 1 error (historic: not counted)" in done.stdout
    answer = json.loads(check("reddit", "--json", cwd=historic).stdout)
    assert answer["ok"] is True
    assert [f["historic"] for f in answer["findings"] if f["severity"] == "error"] == [True]


def test_a_historic_variant_counts_where_it_is_named(historic) -> None:
    done = check("reddit:as-published", cwd=historic)
    assert done.returncode == 1
    assert done.stdout.rstrip().endswith("reddit:as-published: 1 error")


def test_a_historic_variant_is_left_out_where_nothing_is_named(historic) -> None:
    done = check(cwd=historic)
    assert "as-published" not in done.stdout and "reddit:fine: ok" in done.stdout


def test_what_a_person_reads() -> None:
    done = check("--pins", "cuda=10.2", "--gpu", "3090", PYTHONIOENCODING="utf-8", COLUMNS="100")
    head, reason, *rest = done.stdout.splitlines()
    assert head == "error    cuda=10.2 \u00d7 gpu=RTX 3090 (sm_86)"
    assert "sm_86 needs CUDA 11.1" in " ".join([reason, *rest])
    assert any(line.strip() == "nearest: cuda=11.1" for line in rest)
    assert any(line.strip().startswith("source: ") for line in rest)
    assert rest[-1] == "stack: 1 error"
    assert "\x1b" not in done.stdout


def test_a_narrow_encoding_is_enough() -> None:
    done = check("--pins", "cuda=10.2", "--gpu", "3090", PYTHONIOENCODING="ascii")
    assert done.stdout.startswith("error    cuda=10.2 x gpu=RTX 3090 (sm_86)\n")


def test_a_good_stack_is_ok() -> None:
    done = check("--pins", "cuda=11.8,gcc=11", "--gpu", "RTX 3090", "--driver", "525.60.13")
    assert (done.returncode, done.stdout, done.stderr) == (0, "stack: ok\n", "")
    assert json.loads(check("--pins", "cuda=11.8", "--json").stdout) == {"ok": True, "findings": []}


def test_all_recipes_are_checked_where_none_is_named() -> None:
    done = check("--json", "--gpu", "none")
    answer = json.loads(done.stdout)
    errors = [f for f in answer["findings"] if f["severity"] == "error"]
    # A recipe may ask for more memory or disk than this machine has.
    assert [f for f in errors if not any(s.startswith("host.") for s in f["subjects"])] == []
    assert done.returncode == int(bool(errors)) and answer["ok"] is not bool(errors)


@pytest.mark.parametrize(
    ("args", "says", "hint"),
    [
        (["--pins", "cuad=11"], "unknown pin 'cuad'; did you mean cuda?", "pins are cuda"),
        (["--pins", "cuda=11.x"], "cuda=11.x is not a version", "11 stands for"),
        (["--pins", "cuda=$(id)"], "is not a version", ""),
        (["--pins", "cuda=11.8;id"], "is not a version", ""),
        (["--pins", "base={{7*7}}"], "is not an image reference", "base=debian:12"),
        (["--pins", "distro=debian:12;rm"], "is not a distribution", ""),
        (["--pins", "cuda"], "'cuda' is not a pin", "NAME=VERSION"),
        (["--pins", ""], "no pins are given", "--pins cuda"),
        (["--pins", "cuda=11.8,cuda=12.1"], "cuda is pinned twice", ""),
        (["--pins", "gcc=11+cu111"], "only torch, torchvision and dgl have builds", "gcc=11"),
        (["--pins", "cuda=11.8", "--gpu", "RTX 3900"], "unknown GPU 'RTX 3900'", "did you mean"),
        (["--pins", "cuda=11.8", "--gpu", "4.4"], "no GPU has compute capability 4.4", "8.6"),
        (["--pins", "cuda=11.8", "--gpu", "none", "--gpu", "A100"], "--gpu none excludes", ""),
        (["--pins", "cuda=11.8", "--driver", "new"], "'new' is not a driver version", "470.57.02"),
        (["--pins", "cuda=11.8", "--for", "fun"], "--for fun is not a purpose", "compile, run, ptx, import"),
        (["featgraph", "--pins", "cuda=11.8"], "exclude each other", ""),
        (["no-such-recipe"], "unknown recipe", ""),
    ],
)
def test_wrong_usage_is_one_line_and_a_remedy(args: list[str], says: str, hint: str) -> None:
    done = check(*args)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert says in done.stderr.splitlines()[0]
    assert hint in done.stderr
    assert "Traceback" not in done.stderr


def test_nothing_heavy_is_imported_for_pins() -> None:
    code = (
        "import sys\nfrom reprokit import cli\n"
        "cli.app(['check', '--pins', 'cuda=11.8,gcc=11'], standalone_mode=False)\n"
        "print([m for m in ('docker', 'jinja2', 'rich.table', 'reprokit.recipe.model') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "stack: ok\n[]\n"
