"""Which GPUs a bench or smoke container asks for, and which of its output is hidden."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from reprokit.bench.container import bench_name, gpus_for, hiding, machine_lock, marks
from reprokit.container.execute import Completed
from reprokit.errors import UsageError
from reprokit.host import gpu as host_gpu
from reprokit.host.machine import Machine
from reprokit.recipe.find import Target
from reprokit.recipe.model import Recipe


class Engine:
    host = Machine()

    def info(self) -> dict:
        return {}


def asked(gpu: str, option: str | None = None) -> str | None:
    recipe = Recipe.model_validate(
        {
            "name": "gnn",
            "paper": {"title": "T", "venue": "V", "year": 2020, "licence": "none"},
            "variants": {"v": {"base": "debian:12", "requires": {"gpu": gpu}}},
        }
    )
    return gpus_for(Engine(), Target(recipe, "v", Path("gnn.yaml")), option)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("gpu", "there", "choice"),
    [
        ("required", True, "all"),
        ("required", False, "none"),
        ("optional", True, None),
        ("optional", False, "none"),
        ("none", True, "none"),
    ],
)
def test_a_gpu_is_asked_for_where_the_recipe_wants_one_and_the_host_has_one(monkeypatch, gpu, there, choice):
    monkeypatch.setattr(host_gpu, "has_device_file", lambda: there)
    assert asked(gpu) == choice


def test_the_users_choice_comes_first():
    assert asked("none", "device=1") == "device=1"
    assert asked("required", "0") == "none"
    with pytest.raises(UsageError, match="not a choice of GPUs"):
        asked("required", "some")


def test_values_of_an_environment_file_are_hidden_in_output():
    asked: list[dict] = []

    def execute(argv: list[str], **options: object) -> Completed:
        asked.append(options)
        return Completed(0, "token hunter2 hunter2-long 1", "hunter2")

    done = hiding(execute, ["1", "hunter2", "hunter2-long"])(["x"], workdir="/w")
    assert (done.stdout, done.stderr) == ("token *** *** 1", "***")
    assert asked == [{"workdir": "/w", "logged": False}]
    assert hiding(execute, ["1"]) is execute


def test_values_of_an_environment_file_are_hidden_on_the_screen():
    def execute(argv: list[str], on_output: Callable[[str, str], None], logged: bool) -> Completed:
        for stream, text in (("stdout", "token hun"), ("stderr", "hunter2"), ("stdout", "ter2 given\nthe rest")):
            on_output(stream, text)
        return Completed(0)

    seen: list[tuple[str, str]] = []
    hiding(execute, ["hunter2"])(["x"], logged=True, on_output=lambda stream, text: seen.append((stream, text)))
    assert seen == [("stdout", "token *** given\n"), ("stdout", "the rest"), ("stderr", "***")]


def test_a_mark_differs_by_value_and_by_user_and_is_no_plain_hash(monkeypatch, tmp_path):
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path))
    found = marks({"A": "0", "B": "1", "C": "0"})
    assert found == marks({"A": "0", "B": "1", "C": "0"}) and found["A"] == found["C"] != found["B"]
    assert found["A"] not in hashlib.sha256(b"0").hexdigest()
    assert (tmp_path / "state" / "variables.key").stat().st_mode & 0o777 == 0o600
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path / "other"))
    assert marks({"A": "0"})["A"] != found["A"] and marks({}) == {}


def test_each_choice_of_gpus_has_a_container_of_its_own():
    names = [bench_name(None), bench_name("2"), bench_name("device=0"), bench_name("device=0,1")]
    assert names == ["bench", "bench", "bench-gpu0", "bench-gpu0-gpu1"]


class Waits(Exception):
    """In place of waiting."""


class Node(Machine):
    """A node that is the machine of this identity, whatever it is called."""

    def __init__(self, identity):
        self.identity = lambda: identity


@pytest.mark.parametrize(
    ("held", "asked", "waits"),
    [
        (None, None, True), (None, "device=0", True), ("device=0", None, True), ("device=0", "device=0", True),
        ("device=0,1", "device=1", True), ("device=1,0", "device=0,1", True), ("2", "device=0", True),
        ("device=0", "device=GPU-5d", True),
        ("device=GPU-5d", "device=1", True), ("device=0", "device=1", False), ("device=0,2", "device=1,3", False),
    ],
)  # fmt: skip
def test_benchmarks_share_a_machine_only_on_gpus_of_their_own(held, asked, waits, monkeypatch, tmp_path):
    def notify(line):
        raise Waits(line)

    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path))
    here = Machine()
    with machine_lock(held, here, notify):
        with machine_lock(asked, Node("a/../node"), notify):
            pass
        refused = pytest.raises(Waits, match="another benchmark") if waits else nullcontext()
        with refused, machine_lock(asked, here, notify):
            pass
        with refused, machine_lock(asked, Node(here.identity()), notify):
            pass
    with machine_lock(asked, here, notify):
        pass
