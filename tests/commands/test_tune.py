"""`reprokit tune`: a live view, a table, and records that no second call makes again."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from reprokit.bench.tuning import SearchProgress
from reprokit.commands.tune import SearchDisplay
from reprokit.errors import EngineError, UsageError, WorkFailed
from reprokit.results.lines import read
from tests.support.names import unique
from tests.support.searches import PROGRESS, SUMMARY

NAME = unique("tune")
RECIPE = (
    f"name: {NAME}"
    + """
paper: {title: A paper, venue: none, year: 2026, licence: none}
variants:
  cpu:
    base: debian:12
    blocks:
      - run:
          in_image: true
          commands:
            - printf '#!/bin/sh\\nexec /workspace/program "$@"\\n' > /usr/local/bin/python3
            - chmod 755 /usr/local/bin/python3
          products: [/usr/local/bin/python3]
"""
)  # fmt: skip
MEASURED = {"metric": "operator_fusion.relative_time", "unit": "1", "params": {"job": "plan", "id": "\x1b[2J"}}
# Stands for the search in a hostile image: it counts its calls, and prints what a terminal or a parser could mistake.
PROGRAM = r"""#!/bin/sh
case "$*" in "-c import torch") exit 0;; *" tune "*) ;; *) exit 9;; esac
echo "$*" >> /workspace/calls
test -f operator_fusion/__main__.py && test -f fused_attention/__init__.py || exit 8
printf '\033]0;owned\007\033[2Jerror: forged\n' >&2
[ ! -e /workspace/fails ] || exit 7
cat /workspace/output
"""


@pytest.fixture
def workspace(call, tidied, tmp_path: Path) -> Path:
    """The workspace of that recipe, with its program."""
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / f"{NAME}.yaml").write_text(RECIPE)
    folder = tmp_path / "workspaces" / NAME
    folder.mkdir(parents=True)
    (folder / "program").write_text(PROGRAM)
    (folder / "program").chmod(0o755)
    tidied(NAME)
    return folder


@pytest.mark.engine
def test_a_search_ends_in_a_table_and_records_nothing_twice(call, workspace):
    """The program prints a measurement, and the summary."""
    printed = [{"progress": PROGRESS}, {"environment": {"threads": 1}}, {**MEASURED, "samples": [1]}]
    (workspace / "output").write_text("\n".join(map(json.dumps, [*printed, {"summary": SUMMARY}])) + "\n")
    options = "--strategy exact --strategy random --budget 9 --layers 12 --threads 1"
    done = call("tune", NAME, *options.split())
    assert done.exit_code == 0, done.exception
    assert "best plan: 41115 (1 1 3 7), 0.950 of the time of the whole compiled layer" in done.stdout
    assert "> 64" in done.stdout and "of the time of exact's best" in done.stdout
    assert "recorded 1 new measurements" in done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    (arguments,) = (workspace / "calls").read_text().splitlines()
    assert "--layers=12 " in arguments and "--threads=1 --strategy exact random --budget 9" in arguments
    again = call("tune", NAME, "--json")
    assert again.exit_code == 0 and "recorded 0 new measurements" in again.stderr
    data = json.loads(again.stdout)
    assert (data["plan"], len(data["records"])) == (41115, 1)
    (record,) = read(Path("results", f"{NAME}.jsonl"))
    assert record.benchmark == "tune" and record.image_digest and record.cpu and record.threads == 1
    assert record.command.endswith("--layers=12 --dtype=float32 --device=cpu --threads=1")

    (workspace / "fails").touch()
    failed = call("tune", NAME)
    assert r"  \x1b]0;owned\x07\x1b[2Jerror: forged" in failed.stderr and "\x1b" not in failed.stderr
    assert isinstance(failed.exception, WorkFailed)
    assert failed.exception.message == "the benchmark failed with exit code 7"


def test_bad_input_is_named_before_the_engine_is_connected(call, error, tmp_path, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere")
    for arguments, message in (
        ("operator-fusin", "did you mean operator-fusion?"),
        ("--strategy exat", "did you mean exact?"),
        ("--mask x", "--mask"),
        ("--seq 0", "--seq"),
        ("--runner slurm", "--runner"),
        ("--runner ray --on gpu1", "--on is not for --runner ray"),
        ("--runner ray --gpus all", "--gpus is not for --runner ray"),
        ("--runner ray --device cuda:1", "write --device cuda"),
    ):
        answer = call("tune", *arguments.split())
        code = getattr(answer.exception, "exit_code", answer.exit_code)
        assert code == 2 and message in f"{answer.exception} {getattr(answer.exception, 'hint', '')} {answer.stderr}"
    error(EngineError, "tune")
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    assert "no Ray cluster" in call("tune", "--runner", "ray").exception.message
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "operator-fusion.jsonl").write_text("{}\n")
    assert "operator-fusion.jsonl:1" in error(UsageError, "tune").where


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def progress(**changes: object) -> SearchProgress:
    return SearchProgress.model_validate({**PROGRESS, **changes})


def test_a_terminal_shows_the_best_of_all_strategies(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    shown = SearchDisplay(Terminal())
    shown.update(progress(strategy="exact", best=None))
    assert shown.render().plain.splitlines()[0].startswith("best so far: none")
    shown.update(progress())
    shown.update(progress(strategy="anneal", best={"plan": 7, "time": 0.9}))
    head, *rows = shown.render().plain.splitlines()
    assert head.startswith("best so far: plan 7, 0.900 of the compiled layer  0:0")
    assert rows[0] == "  exact, seed 0: 8 of 64 measurements, measuring parts"
    assert rows[1] == "  random, seed 0: 8 of 64 measurements, plan 41115, 0.950"


def test_a_log_gets_a_line_of_each_strategy_now_and_then():
    for every_s, lines in ((0.0, 3), (1000.0, 0)):
        stream = io.StringIO()
        with SearchDisplay(stream, every_s) as shown:
            for used in (8, 16, 24):
                shown.update(progress(used=used))
        assert len(stream.getvalue().splitlines()) == lines
