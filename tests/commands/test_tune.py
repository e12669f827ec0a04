"""`reprokit tune`: a live view, a table, and records that no second call makes again."""

from __future__ import annotations

import io
import json
import subprocess
from pathlib import Path

import pytest

from reprokit.bench.tuning import SearchProgress
from reprokit.commands.tune import SearchDisplay
from reprokit.engine import Engine
from reprokit.results.lines import read
from tests.support.names import unique
from tests.support.searches import PROGRESS, SUMMARY
from tests.support.verbs import run_verb

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
def folder(tmp_path, monkeypatch, debian_12):
    """A folder with that recipe and its program; containers and images are gone afterwards."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / f"{NAME}.yaml").write_text(RECIPE)
    workspace = tmp_path / "workspaces" / NAME
    workspace.mkdir(parents=True)
    (workspace / "program").write_text(PROGRAM)
    (workspace / "program").chmod(0o755)
    yield workspace
    engine = Engine.connect()
    for container in engine.containers([f"reprokit.recipe={NAME}"]):
        engine.remove(container["Id"], force=True)
    for image in engine.images([f"reprokit.recipe={NAME}"]):
        engine.remove_image(image["Id"], force=True)


def tune(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return run_verb("tune", *arguments, env={"REPROKIT_HOME": str(Path.cwd() / "home"), **env})


def output(folder: Path, samples: int) -> None:
    """What the program prints: a measurement for each sample, and the summary."""
    records = [{**MEASURED, "samples": [1 + n / 10]} for n in range(samples)]
    lines = [{"progress": PROGRESS}, {"environment": {"threads": 1}}, *records, {"summary": SUMMARY}]
    (folder / "output").write_text("\n".join(map(json.dumps, lines)) + "\n")


@pytest.mark.engine
def test_a_search_ends_in_a_table_and_records_nothing_twice(folder):
    output(folder, 1)
    done = tune(
        NAME, "--strategy", "exact", "--strategy", "random", "--budget", "9", "--layers", "12", "--threads", "1"
    )
    assert done.returncode == 0, done.stderr
    assert "best plan: 41115 (1 1 3 7), 0.950 of the time of the whole compiled layer" in done.stdout
    assert "> 64" in done.stdout and "of the time of exact's best" in done.stdout
    assert "recorded 1 new measurements" in done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    (call,) = (folder / "calls").read_text().splitlines()
    assert "--layers=12 " in call and "--threads=1 --strategy exact random --budget 9" in call
    again = tune(NAME, "--json")
    assert again.returncode == 0, again.stderr
    assert "recorded 0 new measurements" in again.stderr
    found = json.loads(again.stdout)
    assert (found["plan"], len(found["records"])) == (41115, 1)
    (record,) = read(Path("results", f"{NAME}.jsonl"))
    assert record.benchmark == "tune" and record.image_digest and record.cpu and record.threads == 1
    assert record.command.endswith("--layers=12 --dtype=float32 --device=cpu --threads=1")

    (folder / "fails").touch()
    failed = tune(NAME)
    assert failed.returncode == 1
    assert r"  \x1b]0;owned\x07\x1b[2Jerror: forged" in failed.stderr and "\x1b" not in failed.stderr
    assert "error: the benchmark failed with exit code 7" in failed.stderr


@pytest.mark.slow
def test_bad_input_is_named_before_an_engine_is_asked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for arguments, message in (
        (["operator-fusin"], "did you mean operator-fusion?"),
        (["--strategy", "exat"], "did you mean exact?"),
        (["--mask", "x"], "--mask"),
        (["--seq", "0"], "--seq"),
        (["--runner", "slurm"], "--runner"),
        (["--runner", "ray", "--on", "gpu1"], "--on is not for --runner ray"),
        (["--runner", "ray", "--gpus", "all"], "--gpus is not for --runner ray"),
        (["--runner", "ray", "--device", "cuda:1"], "write --device cuda"),
    ):
        answer = tune(*arguments, DOCKER_HOST="unix:///nowhere")
        assert (answer.returncode, message in answer.stderr) == (2, True), answer.stderr
    assert tune(DOCKER_HOST="unix:///nowhere").returncode == 3
    no_cluster = tune("--runner", "ray", RAY_ADDRESS="127.0.0.1:1", DOCKER_HOST="unix:///nowhere")
    assert (no_cluster.returncode, "no Ray cluster" in no_cluster.stderr) == (3, True), no_cluster.stderr


def test_a_result_file_that_is_broken_stops_the_search_before_it_begins(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "operator-fusion.jsonl").write_text("{}\n")
    answer = tune(DOCKER_HOST="unix:///nowhere")
    assert answer.returncode == 2 and "operator-fusion.jsonl:1" in answer.stderr


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
