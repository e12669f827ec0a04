"""`reprokit check`: what it prints, its JSON, its exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from reprokit.errors import UsageError

RECIPE = """
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
HISTORIC = RECIPE.replace("  cpu:\n", "  as-published:\n    historic: true\n") + "default: fine\n"
OLD_CUDA = ("--pins", "cuda=10.2", "--gpu", "3090")


@pytest.fixture
def check(call):
    return lambda *args: call("check", *args)


@pytest.fixture
def findings(check):
    """The findings of a severity, as JSON."""

    def found(*args: str, severity: str = "error"):
        return [each for each in json.loads(check(*args, "--json").stdout)["findings"] if each["severity"] == severity]

    return found


def test_the_findings_as_json(check, findings, recipe):
    done = check("--pins", "cuda=10.2", "--gpu", "RTX 3090", "--json")
    answer = json.loads(done.stdout)
    assert (done.exit_code, set(answer), answer["ok"]) == (1, {"ok", "findings"}, False)
    (finding,) = [each for each in answer["findings"] if each["severity"] == "error"]
    assert set(finding) == {"severity", "rule", "subjects", "reason", "nearest", "remedy", "sources"}
    assert finding["subjects"] == ["cuda=10.2", "gpu=RTX 3090 (sm_86)"] and finding["rule"] and finding["sources"]
    assert "cuda=11.1" in finding["nearest"] and "cuda=11.1" in finding["remedy"]
    (finding,) = findings("--pins", "torch=1.8.0", "--gpu", "H100", "--for", "run")
    assert finding["subjects"] == ["torch=1.8.0", "gpu=H100 (sm_90)"] and "torch=2.1.0" in finding["nearest"]
    (finding,) = findings("--pins", "base=nvidia/cuda:11.3.0-devel-ubuntu18.04")
    assert "base=nvidia/cuda:11.3.1-devel-ubuntu18.04" in finding["nearest"]
    assert json.loads(check("--pins", "cuda=11.8", "--json").stdout) == {"ok": True, "findings": []}
    recipe("reddit", RECIPE)
    (finding,) = findings("reddit")
    assert (finding["recipe"], finding["nearest"]) == ("reddit:cpu", ["dgl=0.9.1"])
    assert finding["subjects"] == ["dgl=1.1.2", "needs=dgl:RedditDataset.num_labels"]


def test_one_summary_a_variant(check, recipe):
    recipe("reddit", RECIPE)
    done = check("reddit")
    assert done.exit_code == 1 and "reddit:cpu: 1 error" in done.stdout
    assert done.stdout.rstrip().endswith("reddit:fine: ok")
    assert check("reddit:fine").exit_code == 0


def test_a_historic_variant_counts_only_where_it_is_named(check, findings, recipe):
    recipe("reddit", HISTORIC)
    done = check("reddit")
    assert done.exit_code == 0 and "reddit:as-published: 1 error (historic: not counted)" in done.stdout
    assert [finding["historic"] for finding in findings("reddit")] == [True]
    assert json.loads(check("reddit", "--json").stdout)["ok"] is True
    done = check("reddit:as-published")
    assert done.exit_code == 1 and done.stdout.rstrip().endswith("reddit:as-published: 1 error")


def test_all_recipes_are_checked_where_none_is_named(check, recipe):
    done = check("--gpu", "none")
    assert (done.exit_code, done.exception) == (0, None), done.stdout
    assert "fused-attention:cpu: ok" in done.stdout
    recipe("reddit", HISTORIC)
    assert check().stdout == "reddit:fine: ok\n"


def test_what_a_person_reads(check, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    done = check(*OLD_CUDA)
    head, reason, *others = done.stdout.splitlines()
    assert head == "error    cuda=10.2 \u00d7 gpu=RTX 3090 (sm_86)"
    assert "sm_86 needs CUDA 11.1" in " ".join([reason, *others])
    assert any(line.strip() == "nearest: cuda=11.1" for line in others)
    assert "[2 sources]" in done.stdout and "source: " not in done.stdout
    assert others[-1] == "stack: 1 error" and "\x1b" not in done.stdout and "solve" not in done.stdout
    lines = check(*OLD_CUDA, "--sources").stdout.splitlines()
    assert sum(line.strip().startswith("source: ") for line in lines) == 2 and "sources]" not in "".join(lines)
    done = check("--pins", "torch=1.9.0,cuda=11.1", "--gpu", "3090")
    assert done.exit_code == 0 and "taken as torch 1.9.0+cu111, for the pinned CUDA" in done.stdout


def test_solve_is_offered_where_no_single_pin_is_enough(check, recipe):
    offer = "no single pin ends all errors: `reprokit solve --pins ...`, with the same options, finds pins that do"
    assert offer in check("--pins", "cuda=10.2,torch=1.8.0+cu102", "--gpu", "3090").stdout.splitlines()
    assert "solve" not in check("--pins", "cuda=11.8").stdout
    # No pins can help a driver that is too old for the GPU.
    done = check("--pins", "cuda=12.1,torch=2.1.0+cu121", "--gpu", "H100", "--driver", "418.39")
    assert "stack: 3 errors" in done.stdout and "solve" not in done.stdout
    pins = 'pins: {python: "3.11", torch: "1.8.0", tvm: "0.7", llvm: "12"}'
    recipe("x", f"variants: {{v: {{base: 'debian:12', {pins}, blocks: [nosuch]}}}}\n")
    done = check("x")
    assert "unknown block" in done.stdout and "tvm=0.7" in done.stdout and "finds pins" not in done.stdout
    # What this machine lacks is a warning: it does not count as an error that no pin ends.
    recipe("x", f"variants: {{v: {{base: 'debian:12', {pins}, requires: {{memory: 900TiB}}}}}}\n")
    assert "`reprokit solve x:v`" in check("x").stdout


def test_wheels_are_compared_too(findings, recipe):
    variant = "base: 'debian:12', pins: {python: '3.11'}, blocks: [python, wheels]"
    recipe("x", f"variants: {{v: {{{variant}, wheels: ['matplotlib==3.7.1', 'numpy==2.4.6']}}}}\n")
    (finding,) = findings("x")
    assert (finding["rule"], finding["subjects"]) == ("known-clash", ["matplotlib=3.7.1", "numpy=2.4.6"])
    assert finding["reason"].endswith("(matplotlib 3.7.1 and numpy 2.4.6: stated under `wheels`)")


def test_what_this_machine_lacks_is_a_warning(check, findings, recipe):
    recipe("x", "variants: {v: {base: 'debian:12', requires: {memory: 900000GiB, disk: 900000GiB}}}")
    assert check("x", "--gpu", "none").exit_code == 0
    assert {finding["rule"] for finding in findings("x", "--gpu", "none", severity="warning")} >= {"memory", "disk"}


@pytest.mark.parametrize(
    ("args", "message", "hint"),
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
def test_wrong_usage_is_one_line_and_a_remedy(check, args, message, hint):
    done = check(*args)
    assert isinstance(done.exception, UsageError) and done.output == ""
    assert message in done.exception.message.splitlines()[0] and hint in done.exception.hint


@pytest.mark.slow
def test_a_process_writes_a_narrow_encoding_and_imports_nothing_heavy():
    """The last check renders a bundled recipe, for which no template is compiled."""
    code = f"""
import contextlib, sys
import typer
from reprokit import cli
for arguments in ({[*OLD_CUDA]!r}, ["--pins", "cuda=11.8,gcc=11"], ["fused-attention:cpu"]):
    with contextlib.suppress(typer.Exit):
        cli.app(["check", *arguments], standalone_mode=False)
    print([name for name in ("docker", "jinja2", "rich.table", "reprokit.recipe.model") if name in sys.modules])
"""
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    clash, *lines = done.stdout.splitlines()
    assert clash == "error    cuda=10.2 x gpu=RTX 3090 (sm_86)"
    summaries = [line for line in lines if line.startswith(("[", "stack"))]
    assert summaries[:4] == ["stack: 1 error", "[]", "stack: ok", "[]"]
    assert "reprokit.recipe.model" in lines[-1] and "jinja2" not in lines[-1]


def test_all_that_render_refuses_is_an_error_of_check(check, findings, error, recipe, tmp_path: Path):
    (tmp_path / "recipes" / "blocks").mkdir(parents=True)
    own = tmp_path / "recipes" / "blocks" / "mine.j2"
    own.write_text("{#\ndoes: x\n#}\n{% block final %}{% endblock %}\n")
    files = {"order": recipe("order", "variants: {cpu: {base: 'debian:12', blocks: [torch, python]}}\n"), "own": own}
    recipe("own", "variants: {cpu: {base: 'debian:12', blocks: [mine]}}\n")
    for name, file in files.items():
        (finding,) = [each for each in findings(name) if each["rule"] == "recipe"]
        refused = error(UsageError, "render", name)
        assert (finding["reason"], finding["remedy"]) == (refused.message, refused.hint)
        assert finding["recipe"] == f"{name}:cpu" and finding["subjects"][0].startswith(str(file))
    own.write_text("{#\ndoes: x\n#}\n{% block final %}\nRUN true\n{% endblock %}\n")
    assert check("own").stdout == "own:cpu: ok\n"
