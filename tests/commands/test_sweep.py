"""`reprokit sweep`: the plan, real containers, an interrupt, and what is refused before anything runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from reprokit.commands.sweep import show_plan
from reprokit.engine import Engine
from reprokit.errors import EngineError
from reprokit.filelocks import file_lock
from reprokit.results import lines
from reprokit.results.lines import read
from reprokit.sweep.plan import SweepPlan
from tests.support.names import unique
from tests.support.processes import send_when_asleep
from tests.support.verbs import run_verb
from tests.support.waiting import wait_for

NAME = unique("sweep")
# The job N=2 takes long while the workspace has the file `slow`.
RECIPE = """
paper: {title: A paper, venue: none, year: 2026, licence: none}
variants:
  cpu: {base: "debian:12"}
benchmarks:
  spmm:
    command: 'touch started-$N; if [ $N = 2 ] && [ -e slow ]; then sleep 600; fi; echo "took $N ms"'
    parse: {values: [{pattern: 'took (?P<value>\\S+) ms', metric: spmm, unit: ms}]}
"""
NOWHERE = {"DOCKER_HOST": "unix:///nowhere"}
SWEEP = f"runs: [{{recipe: {NAME}, parameters: {{N: [1, 2]}}}}]\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch) -> Path:
    """Where the user stands: that recipe, its workspace and the sweep's file."""
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / f"{NAME}.yaml").write_text(f"name: {NAME}{RECIPE}")
    (tmp_path / "workspaces" / NAME).mkdir(parents=True)
    (tmp_path / "s.yaml").write_text(SWEEP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path / "home"))
    return tmp_path


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "reprokit", "sweep", *arguments]


def sweep(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return run_verb("sweep", *arguments, env=environment)


@pytest.fixture
def tidied(debian_12):
    """Removes the containers and images of the recipe, whatever happened."""
    engine = Engine.connect()
    yield engine
    for container in engine.containers([f"reprokit.recipe={NAME}"]):
        engine.remove(container["Id"], force=True)
    for image in engine.images([f"reprokit.recipe={NAME}"]):
        engine.remove_image(image["Id"], force=True)


@pytest.mark.engine
def test_an_interrupted_sweep_keeps_what_is_measured_and_continues(folder, tidied):
    workspace = folder / "workspaces" / NAME
    (workspace / "slow").touch()
    running = subprocess.Popen(command("s.yaml"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for((workspace / "started-2").exists, 400)
    send_when_asleep(running.pid)
    out, err = running.communicate(timeout=300)
    assert running.returncode == 130, err
    assert "2 jobs on this machine, 0 recorded before" in out and "the same command continues" in err
    (container,) = tidied.containers([f"reprokit.recipe={NAME}"])
    assert container["State"] == "exited"
    (workspace / "slow").unlink()
    done = sweep("s.yaml", "--json")
    assert done.returncode == 0, done.stderr
    file = folder / "results" / f"{NAME}.jsonl"
    records = read(file)
    assert sorted((record.params["N"], record.samples) for record in records) == [(1, (1.0,)), (2, (2.0,))]
    assert len({record.job for record in records}) == 2 and all(record.seconds for record in records)
    data = json.loads(done.stdout)
    assert data["ok"] and data["recorded"] + data["plan"]["done"] == 2 and data["failed"] == []
    # Nothing is left; one more repeat is one more job for each value, whose time is known.
    (folder / "s.yaml").write_text(f"{SWEEP}repeats: 2\n")
    plan = json.loads(sweep("s.yaml", "--dry-run", "--json").stdout)["plan"]
    assert (len(plan["jobs"]), plan["done"], plan["never_measured"]) == (2, 2, 0) and plan["seconds"] > 0
    assert len(read(file)) == 2


@pytest.mark.slow
def test_failures_are_named_and_tried_again(folder):
    done = sweep("s.yaml", **NOWHERE)
    assert done.returncode == 1 and f"this machine gets no more jobs of {NAME}:cpu: 3 in a row" in done.stderr
    assert "error: 2 of 2 jobs failed, the first: " in done.stderr and "hint: the same command tries" in done.stderr
    assert not (folder / "results").exists()
    data = json.loads(sweep("s.yaml", "--json", **NOWHERE).stdout)
    assert not data["ok"] and len(data["failed"]) == 2 and "unix:///nowhere" in str(data["failed"][0]["reasons"])


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        (f"{SWEEP}nodes: [root@stranger.example.org]\n", [], "is not a node of your configuration"),
        (f"{SWEEP}repeat: 2\n", [], "unknown field repeat; did you mean repeats?"),
        (SWEEP.replace(NAME, "nosuch"), [], "unknown recipe 'nosuch'"),
        (SWEEP, ["--image", "x@sha256:00", "--runner", "ray"], "names no image by digest"),
        (SWEEP, ["--image", f"x@sha256:{'0' * 64}"], "--image is for --runner ray"),
        (SWEEP, ["--runner", "slurm", "--image", f"x@sha256:{'0' * 64}"], "--image is for --runner ray"),
        (SWEEP, ["--runner", "slurm"], f"there is no {NAME}-cpu.sqsh and no {NAME}-cpu.sif here"),
    ],
    ids=range(7),
)
def test_bad_input_is_named(folder, text, arguments, message):
    (folder / "s.yaml").write_text(text)
    done = sweep("s.yaml", *arguments)
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr


def test_a_sweep_whose_jobs_are_all_recorded_claims_no_unknown_time(capsys):
    show_plan(SweepPlan((), 2), [], None)
    assert capsys.readouterr().out == "nothing left to measure: 2 jobs recorded before\n"


def test_a_folder_that_cannot_be_written_is_named_before_a_job(call, recipe, tmp_path, monkeypatch):
    recipe(NAME, RECIPE.partition("none}")[2])
    (tmp_path / "s.yaml").write_text(SWEEP)
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(lines.os, "access", lambda _, mode, **__: mode != os.W_OK)
    error = call("sweep", "s.yaml").exception
    assert isinstance(error, EngineError) and error.where == f"results/{NAME}.jsonl"


@pytest.mark.slow
def test_two_sweeps_of_a_recipe_wait_for_each_other(folder):
    (lock,) = _locks(folder)
    notes: list[str] = []
    with file_lock(lock, "", notes.append):
        assert sweep("s.yaml", "--dry-run").returncode == 0  # the plan waits for nobody
        waiting = subprocess.Popen(command("s.yaml"), stderr=subprocess.PIPE, text=True, env={**os.environ, **NOWHERE})
        assert waiting.stderr and f"another sweep of {NAME} is running in this folder" in waiting.stderr.readline()
    waiting.communicate(timeout=200)


def _locks(folder: Path) -> list[Path]:
    """The locks that a sweep has made."""
    sweep("s.yaml", **NOWHERE)
    return list((folder / "home" / "state").glob("sweep-*.lock"))
