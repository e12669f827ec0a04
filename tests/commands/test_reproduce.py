"""`reprokit reproduce`: it goes on where it can, names what it cannot, and ends in a report."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace

import pytest

from reprokit.errors import EngineError, SourceError, UsageError
from reprokit.results import lines
from tests.support.records import RECORD

PLAIN = """
variants: {cpu: {base: "debian:12"}}
benchmarks:
  b: {command: "echo 1", parse: {values: [{pattern: "(?P<value>.*)", metric: b.time, unit: s}]}}
claims: [{metric: b.time, value: 1, unit: s, hardware: a CPU, gpu: none, where: Table 1}]
"""
BLOCK = "{#\ndoes: nothing.\n#}\n{% block final %}\nRUN true\n{% endblock %}\n"
CLASHING = PLAIN.replace('"debian:12"}', '"debian:12", pins: {torch: "1.8.0", python: "3.12"}}')


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere")


@pytest.mark.usefixtures("home")
def test_without_an_engine_the_report_says_what_was_skipped(call, recipe, tmp_path):
    recipe("x", PLAIN)
    for start in ("", "done before"):
        done = call("reproduce", "x:cpu")
        assert done.exit_code == 3, done.output
        assert start in done.stderr
        rows = [line.split()[:2] for line in done.stdout.splitlines() if line.split()[1:2] in (["done"], ["skipped"])]
        assert rows == [
            ["check", "done"], ["lock", "skipped"], ["fetch", "done"], ["build", "skipped"], ["smoke", "skipped"],
            ["bench", "skipped"], ["claims", "done"],
        ]  # fmt: skip
    page = (tmp_path / "results" / "x-report" / "index.html").read_text()
    assert "unix:///nowhere" not in page and "build was skipped" in page and "not measured" in page
    assert str(tmp_path) not in page


@pytest.mark.usefixtures("home")
def test_after_a_lock_that_is_new_the_later_steps_are_done_again(call, recipe, monkeypatch):
    recipe("x", PLAIN)
    ran, mirror_is_down = [], [True]

    def run(context, argv, quiet):
        ran.append(argv[0])
        if argv[0] == "lock" and mirror_is_down:
            raise SourceError("the mirror does not answer")
        return 0

    monkeypatch.setattr("reprokit.commands.reproduce._run", run)
    call("reproduce", "x:cpu")
    assert ran == ["check", "lock", "build", "smoke", "bench", "claims"]
    ran.clear()
    call("reproduce", "x:cpu")
    assert ran == ["lock", "claims"]
    ran.clear()
    mirror_is_down.clear()
    call("reproduce", "x:cpu")
    assert ran == ["lock", "build", "smoke", "bench", "claims"]


@pytest.mark.usefixtures("home")
def test_after_a_late_fetch_no_step_is_done_again(call, recipe, monkeypatch):
    """The image was there: it is what its lock gives, with or without the files in the store."""
    recipe("x", PLAIN)
    ran, offline = [], [True]

    def run(context, argv, quiet):
        ran.append(argv[0])
        if argv[0] == "fetch" and offline:
            raise SourceError("no network")
        return 0

    monkeypatch.setattr("reprokit.commands.reproduce._run", run)
    monkeypatch.setattr("reprokit.commands.reproduce._needless", lambda step, target: "it is locked" * (step == "lock"))
    call("reproduce", "x:cpu")
    assert ran == ["check", "fetch", "build", "smoke", "bench", "claims"]
    ran.clear()
    offline.clear()
    call("reproduce", "x:cpu")
    assert ran == ["fetch", "claims"]


@pytest.mark.usefixtures("home")
def test_a_folder_that_cannot_be_written_is_named_before_any_step(call, recipe, monkeypatch):
    recipe("x", PLAIN)
    monkeypatch.setattr(lines.os, "access", lambda *_: False)
    done = call("reproduce", "x:cpu")
    assert isinstance(done.exception, EngineError) and "read-only" in done.exception.message
    assert "1/7" not in done.stderr


@pytest.mark.usefixtures("home")
def test_a_file_in_place_of_the_report_is_named_before_any_step(call, recipe, tmp_path):
    recipe("x", PLAIN)
    (tmp_path / "out").write_text("")
    done = call("reproduce", "x:cpu", "-o", "out")
    assert isinstance(done.exception, UsageError) and done.exception.message.endswith("Not a directory")
    assert done.exception.where.endswith("/out") and "1/7" not in done.stderr


@pytest.mark.usefixtures("home")
def test_as_json_it_prints_one_document(call, recipe):
    recipe("x", CLASHING)
    done = call("reproduce", "x", "--json")
    data = json.loads(done.stdout)
    assert (done.exit_code, data["ok"], data["report"]) == (1, False, "results/x-report/index.html")
    assert [(step["name"], step["status"]) for step in data["steps"]][:2] == [("check", "failed"), ("lock", "skipped")]
    assert "nvcc" in done.stderr or "torch" in done.stderr  # what `check` prints


@pytest.mark.usefixtures("home")
@pytest.mark.slow
def test_another_repeat_block_or_workspace_begins_anew(call, recipe, tmp_path, monkeypatch):
    recipe("x", PLAIN.replace('"debian:12"', '"debian:12", blocks: [mine]'))
    (tmp_path / "recipes" / "blocks").mkdir()
    (tmp_path / "recipes" / "blocks" / "mine.j2").write_text(BLOCK)
    workspace = tmp_path / "workspaces" / "x"
    workspace.mkdir(parents=True)

    def begins_anew(*options: str) -> bool:
        return "check: done before" not in call("reproduce", "x:cpu", *options).stderr

    assert begins_anew() and not begins_anew()
    (workspace / "kernel.cu").write_text("1")
    assert begins_anew() and not begins_anew()
    (workspace / "kernel.cu").write_text("2")
    assert begins_anew() and not begins_anew()
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr("platform.node", lambda: "another-machine")
        assert begins_anew() and not begins_anew()
    assert begins_anew() and not begins_anew()
    results = tmp_path / "results" / "x.jsonl"
    results.write_text(replace(RECORD, recipe="x", variant="cuda").to_json() + "\n")
    assert not begins_anew()
    lines.append(tmp_path, "results/x.jsonl", [replace(RECORD, recipe="x", variant="cpu")])
    assert begins_anew() and not begins_anew()
    results.unlink()
    assert begins_anew() and not begins_anew()
    assert begins_anew("--repeat", "20") and not begins_anew("--repeat", "20") and begins_anew()
    (tmp_path / "recipes" / "blocks" / "mine.j2").write_text(BLOCK.replace("true", "false"))
    assert begins_anew() and not begins_anew()
    for command in ("init -q", "add .", "-c user.name=t -c user.email=t@example.org commit -q -m one"):
        (workspace / "a").write_text("1")
        subprocess.run(["git", *command.split()], cwd=workspace, check=True)
    assert begins_anew() and not begins_anew()
    (workspace / "a").write_text("2")
    assert begins_anew() and not begins_anew()


@pytest.mark.usefixtures("home")
def test_a_stack_that_cannot_work_stops_everything_but_the_report(call, recipe, tmp_path):
    recipe("x", CLASHING)
    done = call("reproduce", "x", "-o", "out")
    assert done.exit_code == 1
    assert "check failed" in done.stdout
    assert "check failed" in (tmp_path / "out" / "index.html").read_text()
    assert (tmp_path / "out" / "summary.md").exists()
