"""A trial goes through its steps in order, keeps on after a failed command, and leaves nothing open."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path

import pytest

from reprokit.container.execute import Completed
from reprokit.errors import EngineError, SourceError, WorkFailed
from reprokit.recipe.find import Target
from reprokit.recipe.model import Recipe
from reprokit.smoke.run import NO_GPU, Trial, title


@pytest.fixture(autouse=True)
def _home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Failures are kept below it."""
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path))


RECIPE = Recipe.model_validate(
    {
        "name": "gnn",
        "paper": {"title": "T", "venue": "V", "year": 2020, "licence": "none"},
        "variants": {"cpu": {"base": "debian:12", "workdir": "/opt/gnn"}, "other": {"base": "debian:12"}},
        "smoke": [
            {"command": "version", "expect": r"^1\.2$"},
            {"command": "gpu-test", "gpu": True},
            {"command": "other-test", "variants": ["other"]},
            {"command": "last"},
        ],
    }
)
TARGET = Target(RECIPE, "cpu", Path("gnn.yaml"))


class World:
    """Answers of a container by command, and what was asked of it."""

    def __init__(self, gpu: bool = False, **answers: Completed | BaseException) -> None:
        self.answers = {"version": Completed(0, "lib\n1.2\n"), **answers}
        self.gpu = gpu
        self.events: list[str] = []

    def act(self, name: str):
        def action(target: Target) -> None:
            self.events.append(name)
            if isinstance(answer := self.answers.get(name), Exception):
                raise answer

        return action

    @contextmanager
    def container(self, target: Target):
        self.act("open")(target)
        try:
            yield self.execute
        finally:
            self.events.append("close")

    def execute(self, argv: list[str], workdir: str = "", logged: bool = True) -> Completed:
        if argv[0] == "sh":
            probed = Completed(0, "reprokit:device /dev/nvidia0\n" if self.gpu else "")
            answer = self.answers.get("probe", probed)
        else:
            assert workdir == "/opt/gnn"
            self.events.append(argv[2])
            answer = self.answers.get(argv[2], Completed(0))
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def run(self):
        return Trial(self.act("check"), self.act("build"), self.container).run(TARGET)


def outcome(result) -> list[tuple[str, str]]:
    return [(step.name, step.status) for step in result.steps]


def test_all_that_needs_no_gpu_runs_and_the_rest_is_left_out():
    world = World()
    result = world.run()
    assert outcome(result) == [
        ("check", "pass"), ("build", "pass"), ("container", "pass"),
        ("version", "pass"), ("gpu-test", "skip"), ("last", "pass"),
    ]  # fmt: skip
    assert (result.status, result.exit_code, result.reason) == ("pass", 0, f"skipped 1: {NO_GPU}")
    assert world.events == ["check", "build", "open", "version", "last", "close"]
    world = World(gpu=True)
    assert world.run().reason == "" and "gpu-test" in world.events


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Completed(2, "working\n", "no such module\n"), "version: exit code 2: no such module"),
        (Completed(1), "version: exit code 1: no output"),
        (Completed(0, "1.25\n"), r"version: its output has no match for '^1\\.2$'"),
    ],
)
def test_a_failed_command_stops_no_other(answer, reason):
    world = World(version=answer)
    result = world.run()
    assert (result.status, result.exit_code, result.reason) == ("fail", 1, reason)
    assert world.events[-2:] == ["last", "close"]
    assert result.steps[3].output == answer.stdout + answer.stderr


def test_a_failed_command_ends_with_its_cause():
    killed = ("reprokit: out of memory: the kernel killed python3 (PID 7 of the host) in container gnn",)
    result = World(version=Completed(137, "epoch 1\n", facts=killed), last=Completed(1, "nvcc: not found\n")).run()
    shown = [step.output.splitlines() for step in result.steps if step.status == "fail"]
    assert [lines[0] for lines in shown] == ["epoch 1", "nvcc: not found"]
    assert shown[0][1].startswith("cause: memory ran out: the kernel killed python3")
    assert shown[1][1].startswith("cause: there is no nvcc") and shown[1][2].startswith("remedy: ")


@pytest.mark.parametrize(
    ("where", "error", "events"),
    [
        ("check", WorkFailed("a finding"), ["check"]),
        ("build", SourceError("no network", "gnn:cpu", "try later"), ["check", "build"]),
        ("open", EngineError("the engine stopped"), ["check", "build", "open"]),
        ("probe", EngineError("the engine stopped"), ["check", "build", "open", "close"]),
        ("version", EngineError("the engine stopped"), ["check", "build", "open", "version", "close"]),
    ],
)
def test_whatever_else_fails_ends_the_trial_with_its_exit_code(where, error, events):
    world = World(**{where: error})
    result = world.run()
    assert (result.status, result.exit_code) == ("fail", error.exit_code)
    assert error.message in result.reason
    assert world.events == events


def test_an_interrupt_closes_the_container():
    world = World(version=KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        world.run()
    assert world.events[-1] == "close"


def test_long_commands_have_short_titles():
    (short,) = [s for s in RECIPE.smoke if s.command == "last"]
    assert title(short) == "last"
    assert title(short.model_copy(update={"command": "a\nb"})) == "a..."
    assert len(title(short.model_copy(update={"command": "x" * 200}))) == 80
