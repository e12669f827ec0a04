"""`reprokit explain`: a file or standard input; as text and as JSON."""

from __future__ import annotations

import json
import re

import pytest

from reprokit import cli
from reprokit.errors import UsageError
from reprokit.explain.last import keep
from reprokit.explain.remedy import Subject
from reprokit.host import gpu
from reprokit.recipe.find import target

LOG = "line one\n/bin/sh: 1: nvcc: not found\nmake: *** [all] Error 127\n"


def test_text_and_json_name_cause_line_context_and_remedy(call, tmp_path):
    (tmp_path / "build.log").write_text(LOG)
    out = call("explain", "build.log").stdout
    assert out.splitlines()[0].startswith("line 2: there is no nvcc")
    assert "> 2 | /bin/sh: 1: nvcc: not found" in out
    assert "remedy: take the devel tag" in out
    assert "\n\nalso possible:\n  line 3:" in out
    causes = json.loads(call("explain", "build.log", "--json").stdout)["causes"]
    assert [cause["rule"] for cause in causes] == ["nvcc-not-found", "make-program-missing"]
    (tmp_path / "x.log").write_text("ModuleNotFoundError: No module named 'h5py'\n")
    out = call("explain", "x.log").stdout
    assert "  remedy: pip install h5py" in out and "  in a recipe: add h5py to `wheels`" in out
    (tmp_path / "build.log").write_text("[100%] Built target x\n")
    result = call("explain", "build.log")
    assert (result.exit_code, result.stdout) == (0, "no failure found in this log\n")


def test_the_last_failure_is_kept_for_its_explanation(call):
    assert "no failure is kept" in str(call("explain", "--last").exception)
    keep(LOG)
    assert "\nline 2: there is no nvcc" in call("explain", "--last").stdout
    keep("[100%] Built target x\n")  # the log of a failure, whatever it says
    assert json.loads(call("explain", "--last", "--json").stdout)["success"] is False


def test_what_does_not_fit_in_the_recipe_and_on_this_machine_stands_below_the_cause(call, tmp_path, monkeypatch):
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes/odd.yaml").write_text(
        "name: odd\npaper: {title: T, venue: V, year: 2020, licence: MIT}\nvariants:\n"
        '  v: {base: "debian:12", pins: {cuda: "11.2", gcc: "12"}, requires: {gpu: required}}\n'
    )
    monkeypatch.setattr(gpu, "gpus", list)
    keep(LOG, subject=Subject(target("odd:v")))
    problems = [line for line in call("explain", "--last").stdout.splitlines() if line.startswith("  does not fit: ")]
    assert any("gcc=12" in line and "cuda=11.2" in line for line in problems)
    assert "  does not fit: requires.gpu=required: this machine has no GPU" in problems


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "name one log"),
        (("-", "--last"), "name one log"),
        (("missing.log",), "cannot read the log"),
        ((".",), "cannot read the log|folder"),
    ],
)
def test_wrong_usage_is_named(error, arguments, message):
    assert re.search(message, str(error(UsageError, "explain", *arguments)))


def test_a_refused_recipe_is_the_last_failure_and_a_failed_explanation_is_not(call, tmp_path, monkeypatch, capsys):
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes/torn.yaml").write_text("name: [")
    for words in (["show", "torn"], ["explain"], ["explian"]):
        monkeypatch.setattr("sys.argv", ["reprokit", *words])
        assert cli._run() == 2
    capsys.readouterr()
    monkeypatch.setattr("sys.argv", ["reprokit", "explain", "--last"])
    assert cli._run() == 0
    first, error, hint = capsys.readouterr().out.splitlines()
    assert first.startswith("`reprokit show` failed on ") and error.startswith("error: not valid YAML")
    assert "torn.yaml:" in error and hint == "hint: check indentation and quotes"


def test_nothing_of_a_log_steers_the_terminal(call, tmp_path):
    (tmp_path / "x.log").write_bytes(b"\x1b]0;evil\x07ImportError: a.so: undefined symbol: x\x9b31m\xe2\x80\xae\n")
    assert not set("\x1b\x07\x9b\u202e") & set(call("explain", "x.log").stdout)
