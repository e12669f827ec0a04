"""`reprokit reproduce`: it goes on where it can, names what it cannot, and ends in a report."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest

from reprokit.engine.info import EngineInfo
from reprokit.errors import EngineError, SourceError, UsageError
from reprokit.recipe.find import target
from reprokit.results import lines
from reprokit.smoke.reproduce import NAMES, _actions, _state
from tests.support.records import RECORD

PLAIN = """
variants: {cpu: {base: "debian:12"}}
benchmarks:
  b: {command: "echo 1", parse: {values: [{pattern: "(?P<value>.*)", metric: b.time, unit: s}]}}
claims: [{metric: b.time, value: 1, unit: s, hardware: a CPU, gpu: none, where: Table 1}]
"""
BLOCK = "{#\ndoes: nothing.\n#}\n{% block final %}\nRUN true\n{% endblock %}\n"
CLASHING = PLAIN.replace('"debian:12"}', '"debian:12", pins: {torch: "1.8.0", python: "3.12"}}')


@pytest.fixture(autouse=True)
def no_engine(monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere")


def test_without_an_engine_the_report_says_what_was_skipped(call, recipe, tmp_path):
    recipe("x", PLAIN)
    for start in ("", "check: done before"):
        done = call("reproduce", "x:cpu")
        assert done.exit_code == 3 and start in done.stderr, done.output
        rows = [" ".join(line.split()[:2]) for line in done.stdout.splitlines()]
        assert [row for row in rows if row.endswith((" done", " skipped"))] == [
            *("check done", "lock skipped", "fetch done", "build skipped"),
            *("smoke skipped", "bench skipped", "claims done"),
        ]
    page = (tmp_path / "results" / "x-report" / "index.html").read_text()
    assert "unix:///nowhere" not in page and "build was skipped" in page and "not measured" in page
    assert str(tmp_path) not in page


@pytest.fixture
def run(call, recipe, monkeypatch):
    """`run("lock")`: the verbs that run, of which `lock` cannot reach its sources."""
    recipe("x", PLAIN)

    def steps(offline: str = "") -> list[str]:
        verbs = []

        def step(name: str) -> None:
            verbs.append(name)
            if name == offline:
                raise SourceError("the mirror does not answer")

        actions = {name: partial(step, name) for name in NAMES}
        monkeypatch.setattr("reprokit.smoke.reproduce._actions", lambda target, repeat: actions)
        call("reproduce", "x:cpu")
        return verbs

    return steps


def test_after_a_lock_that_is_new_the_later_steps_are_done_again(run):
    assert run("lock") == ["check", "lock", "build", "smoke", "bench", "claims"]
    assert run("lock") == ["lock", "claims"]
    assert run() == ["lock", "build", "smoke", "bench", "claims"]


def test_after_a_late_fetch_no_step_is_done_again(run, monkeypatch):
    """The image was there: it is what its lock gives, with or without the files in the store."""
    monkeypatch.setattr("reprokit.smoke.reproduce._needless", lambda step, target: "it is locked" * (step == "lock"))
    assert run("fetch") == ["check", "fetch", "build", "smoke", "bench", "claims"]
    assert run() == ["fetch", "claims"]


def test_a_machine_that_is_too_small_does_not_build(recipe, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recipe("x", PLAIN.replace('"debian:12"', '"debian:12", requires: {memory: 8GiB}'))
    host = SimpleNamespace(memory_bytes=lambda: 4 << 30, disk_free_bytes=lambda folder: 1 << 40)
    engine = SimpleNamespace(host=host, image=lambda name: None, info=EngineInfo)
    monkeypatch.setattr("reprokit.smoke.reproduce.Engine.connect", lambda: engine)
    with pytest.raises(EngineError, match="too small"):
        _actions(target("x:cpu"), 1)["build"]()


def test_outputs_that_cannot_be_written_are_named_before_any_step(call, recipe, tmp_path, monkeypatch):
    recipe("x", PLAIN)
    (tmp_path / "out").write_text("")
    done = call("reproduce", "x:cpu", "-o", "out")
    assert isinstance(done.exception, UsageError) and done.exception.message.endswith("Not a directory")
    assert done.exception.where.endswith("/out") and "1/7" not in done.stderr
    monkeypatch.setattr(lines.os, "access", lambda *_: False)
    done = call("reproduce", "x:cpu")
    assert isinstance(done.exception, EngineError) and "read-only" in done.exception.message
    assert "1/7" not in done.stderr


def test_another_repeat_block_workspace_machine_or_result_begins_anew(call, recipe, tmp_path, monkeypatch):
    file = recipe("x", PLAIN.replace('"debian:12"', '"debian:12", blocks: [mine]'))
    block = tmp_path / "recipes" / "blocks" / "mine.j2"
    block.parent.mkdir()
    block.write_text(BLOCK)
    workspace, results = tmp_path / "workspaces" / "x", tmp_path / "results" / "x.jsonl"
    workspace.mkdir(parents=True)

    def git(*arguments: str) -> None:
        subprocess.run(
            ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", *arguments], cwd=workspace, check=True
        )

    def commit() -> None:
        git("init", "-q")
        git("add", ".")
        git("commit", "-q", "-m", "one")

    def append(variant: str) -> None:
        lines.append(tmp_path, "results/x.jsonl", [replace(RECORD, recipe="x", variant=variant)])

    states = [_state(target("x:cpu"), 1)]
    for change, begins_anew in (
        (lambda: (workspace / "kernel.cu").write_text("1"), True),
        (lambda: (workspace / "kernel.cu").write_text("2"), True),
        (lambda: monkeypatch.setattr("platform.node", lambda: "another-machine"), True),
        (lambda: append("cuda"), False),
        (lambda: append("cpu"), True),
        (results.unlink, True),
        (lambda: block.write_text(BLOCK.replace("true", "false")), True),
        (lambda: file.write_text(file.read_text().replace("value: 1", "value: 2")), True),
        (commit, True),
        (lambda: (workspace / "kernel.cu").write_text("3"), True),
    ):
        change()
        states.append(_state(target("x:cpu"), 1))
        assert (states[-1] != states[-2]) is begins_anew
    assert _state(target("x:cpu"), 20) != states[-1]


def test_a_stack_that_cannot_work_stops_everything_but_the_report(call, recipe, tmp_path):
    recipe("x", CLASHING)
    done = call("reproduce", "x", "-o", "out")
    assert done.exit_code == 1 and "check failed" in done.stdout
    assert "check failed" in (tmp_path / "out" / "index.html").read_text()
    assert (tmp_path / "out" / "summary.md").exists()
    done = call("reproduce", "x", "--json")
    data = json.loads(done.stdout)  # one document
    assert (done.exit_code, data["ok"], data["report"]) == (1, False, "results/x-report/index.html")
    assert [(step["name"], step["status"]) for step in data["steps"]][:2] == [("check", "failed"), ("lock", "skipped")]
    assert "check: done before" in done.stderr or "torch" in done.stderr
