"""The steps of a reproduction: what blocks what, what is a failure, what is only skipped, what is done before."""

from __future__ import annotations

import pytest

from reprokit.errors import Absent, EngineError, SourceError, UsageError, WorkFailed
from reprokit.recipe.find import Target
from reprokit.recipe.model import Recipe
from reprokit.smoke.reproduce import NAMES, Journal, ReproductionStep, as_table, attempt, blocked, exit_code


def step(name: str, status: str = "done", code: int = 0) -> ReproductionStep:
    return ReproductionStep(name, f"reprokit {name}", status, exit_code=code)


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (WorkFailed("it broke"), "failed", 1), (EngineError("no GPU"), "skipped", 3),
        (SourceError("no network"), "skipped", 4), (Absent("not locked", hint="lock it"), "skipped", 2),
        (UsageError("not locked", hint="lock it"), "failed", 2),
    ],
)  # fmt: skip
def test_what_the_machine_or_network_cannot_do_is_skipped(error, status, code):
    def run():
        raise error

    found = attempt("bench", "reprokit bench x:cpu", run)
    assert (found.command, found.status, found.exit_code) == ("reprokit bench x:cpu", status, code)
    assert found.reason == ("not locked (lock it)" if error.hint else error.message)


def test_a_step_may_leave_a_remark():
    assert attempt("check", "x", lambda: ["ignored"]) == ReproductionStep("check", "x", "done")
    assert attempt("claims", "", lambda: "a claim is not reproduced").reason == "a claim is not reproduced"


@pytest.mark.parametrize(
    ("smoke", "bench", "code"),
    [
        (step("smoke", "skipped", 3), step("bench", "skipped"), 3), (step("smoke"), step("bench", "skipped", 4), 0),
        (step("smoke"), step("bench"), 0), (step("smoke", "skipped", 3), step("bench", "failed", 1), 1),
    ],
)  # fmt: skip
def test_a_reproduction_that_ran_nothing_is_not_green(smoke, bench, code):
    assert exit_code([step("check"), step("lock", "done"), smoke, bench, step("claims")]) == code


def test_a_step_waits_for_those_that_it_needs():
    steps = {name: step(name) for name in NAMES}
    assert all(not blocked(name, steps) for name in NAMES)
    steps["lock"] = steps["fetch"] = step("lock", "skipped")  # a build without a lock fetches by itself
    assert not blocked("build", steps)
    steps["build"] = step("build", "failed")
    assert blocked("smoke", steps) == "build failed" and not blocked("claims", steps)
    steps["check"] = step("check", "failed")
    assert blocked("build", steps) == "check failed"
    assert as_table(list(steps.values())).rows[0] == ("check", "failed", "", "reprokit check")


@pytest.fixture
def opened(tmp_path, monkeypatch):
    """`opened(state)`: the journal of a recipe."""
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path / "home"))
    paper = {"title": "T", "venue": "V", "year": 2020, "licence": "none"}
    recipe = Recipe.model_validate({"name": "x", "paper": paper, "variants": {"cpu": {"base": "debian:12"}}})
    target = Target(recipe, "cpu", tmp_path / "x.yaml")
    return lambda state="", fresh=False: Journal(target, fresh, state if callable(state) else lambda: state)


def test_done_steps_are_kept_until_what_they_depend_on_changes(opened, tmp_path):
    states = ["one"]
    journal = opened(lambda: states[-1])
    journal.add(step("check"))
    journal.add(step("lock", "failed"))
    assert list(opened("one").steps) == ["check"]
    assert opened("one", fresh=True).steps == {}
    (file,) = (tmp_path / "home" / "state" / "reproduce").iterdir()
    file.write_text("{")
    assert opened("one").steps == {}
    states.append("of the image that the step has built")
    journal.add(step("build"))
    assert "build" in opened(states[-1]).steps and opened("two").steps == {}
    states.append("two")
    journal.save()
    assert "build" in opened("two").steps


def test_a_step_that_runs_now_makes_the_later_ones_due(opened):
    journal = opened()
    for name in NAMES:
        journal.add(step(name, "skipped" if name == "lock" else "done"))
    done = ["check", "fetch", "build", "smoke", "bench", "claims"]
    journal = opened()
    journal.add(step("lock", "skipped", 4))  # the mirror is still down
    assert list(opened().steps) == done
    journal.add(step("lock"), ran=False)  # there was a lock
    assert list(opened().steps) == [*done, "lock"]
    journal.add(step("lock"))
    assert list(opened().steps) == ["check", "lock"]
