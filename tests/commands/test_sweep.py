"""`reprokit sweep`: the plan, real containers, an interrupt, and what is refused before anything runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from reprokit.commands.sweep import show_plan
from reprokit.errors import EngineError, UsageError, WorkFailed
from reprokit.filelocks import file_lock
from reprokit.results import lines
from reprokit.results.lines import read
from reprokit.sweep.plan import SweepPlan
from tests.support.names import unique
from tests.support.processes import send_when_asleep
from tests.support.waiting import wait_for

NAME = unique("sweep")
# The job N=2 takes long while the workspace has the file `slow`.
RECIPE = """
variants:
  cpu: {base: "debian:12"}
benchmarks:
  spmm:
    command: 'touch started-$N; if [ $N = 2 ] && [ -e slow ]; then sleep 600; fi; echo "took $N ms"'
    parse: {values: [{pattern: 'took (?P<value>\\S+) ms', metric: spmm, unit: ms}]}
"""
SWEEP = f"runs: [{{recipe: {NAME}, parameters: {{N: [1, 2]}}}}]\n"
PROCESS = [sys.executable, "-m", "reprokit", "sweep", "s.yaml"]


@pytest.fixture
def sweep(call, recipe, tmp_path: Path):
    """`sweep("--json")` where the user stands: that recipe, its workspace and the sweep's file."""
    recipe(NAME, RECIPE)
    (tmp_path / "workspaces" / NAME).mkdir(parents=True)
    (tmp_path / "s.yaml").write_text(SWEEP)
    return lambda *arguments: call("sweep", "s.yaml", *arguments)


@pytest.mark.engine
def test_an_interrupted_sweep_keeps_what_is_measured_and_continues(sweep, tidied, tmp_path):
    engine, workspace = tidied(NAME), tmp_path / "workspaces" / NAME
    (workspace / "slow").touch()
    running = subprocess.Popen(PROCESS, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for((workspace / "started-2").exists, 400)
    send_when_asleep(running.pid)
    out, err = running.communicate(timeout=300)
    assert running.returncode == 130, err
    assert "2 jobs on this machine, 0 recorded before" in out and "the same command continues" in err
    (container,) = engine.containers([f"reprokit.recipe={NAME}"])
    assert container.state == "exited"
    (workspace / "slow").unlink()
    done = sweep("--json")
    assert done.exit_code == 0, done.exception
    file = tmp_path / "results" / f"{NAME}.jsonl"
    records = read(file)
    assert sorted((record.params["N"], record.samples) for record in records) == [(1, (1.0,)), (2, (2.0,))]
    assert len({record.job for record in records}) == 2 and all(record.seconds for record in records)
    data = json.loads(done.stdout)
    assert data["ok"] and data["recorded"] + data["plan"]["done"] == 2 and data["failed"] == []
    # Nothing is left; one more repeat is one more job for each value, whose time is known.
    (tmp_path / "s.yaml").write_text(f"{SWEEP}repeats: 2\n")
    plan = json.loads(sweep("--dry-run", "--json").stdout)["plan"]
    assert (len(plan["jobs"]), plan["done"], plan["never_measured"]) == (2, 2, 0) and plan["seconds"] > 0
    assert len(read(file)) == 2


@pytest.mark.slow
def test_failures_are_tried_again_and_two_sweeps_of_a_recipe_wait_for_each_other(sweep, tmp_path, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere")
    done = sweep()
    assert f"this machine gets no more jobs of {NAME}:cpu: 3 in a row" in done.stderr
    assert isinstance(done.exception, WorkFailed) and "the same command tries" in done.exception.hint
    assert "2 of 2 jobs failed, the first: " in done.exception.message and not (tmp_path / "results").exists()
    (lock,) = (tmp_path / "home" / "state").glob("sweep-*.lock")
    with file_lock(lock, ""):
        assert sweep("--dry-run").exit_code == 0  # the plan waits for nobody
        waiting = subprocess.Popen([*PROCESS, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert waiting.stderr and f"another sweep of {NAME} is running in this folder" in waiting.stderr.readline()
    data = json.loads(waiting.communicate(timeout=200)[0])
    assert not data["ok"] and len(data["failed"]) == 2 and "unix:///nowhere" in str(data["failed"][0]["reasons"])


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        (f"{SWEEP}nodes: [root@stranger.example.org]\n", [], "is not a node of your configuration"),
        (f"{SWEEP}repeat: 2\n", [], "unknown field repeat; did you mean repeats?"),
        (SWEEP.replace(NAME, "nosuch"), [], "unknown recipe 'nosuch'"),
        (SWEEP, ["--runner", "slurm"], f"there is no {NAME}-cpu.sqsh and no {NAME}-cpu.sif here"),
    ],
    ids=range(4),
)
def test_bad_input_is_named(sweep, tmp_path, text, arguments, message):
    (tmp_path / "s.yaml").write_text(text)
    done = sweep(*arguments)
    assert isinstance(done.exception, UsageError) and message in str(done.exception)


def test_a_sweep_whose_jobs_are_all_recorded_claims_no_unknown_time(capsys):
    show_plan(SweepPlan((), 2), [], None)
    assert capsys.readouterr().out == "nothing left to measure: 2 jobs recorded before\n"


def test_a_folder_that_cannot_be_written_is_named_before_a_job(sweep, monkeypatch):
    monkeypatch.setattr(lines.os, "access", lambda _, mode, **__: mode != os.W_OK)
    error = sweep().exception
    assert isinstance(error, EngineError) and error.where == f"results/{NAME}.jsonl"
