"""A container for bench and smoke: its GPUs, the secrets hidden in its output, the variables that a user sets."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from reprokit.bench.container import bench_name, gpus_for, hiding, machine_lock, marks
from reprokit.bench.parameters import check_names, parameter
from reprokit.container.execute import Completed
from reprokit.display import reporting
from reprokit.engine import EngineInfo
from reprokit.engine.client import EngineClient
from reprokit.errors import UsageError
from reprokit.host import gpu as host_gpu
from reprokit.host.machine import Machine
from reprokit.recipe.find import Target
from reprokit.recipe.model import Benchmark, Recipe


class Engine(EngineClient):
    def info(self) -> EngineInfo:
        return EngineInfo()


@pytest.mark.parametrize(
    ("gpu", "present", "option", "choice"),
    [
        ("required", True, None, "all"),
        ("required", False, None, "none"),
        ("optional", True, None, None),
        ("optional", False, None, "none"),
        ("none", True, None, "none"),
        ("none", True, "device=1", "device=1"),
        ("required", True, "0", "none"),
    ],
)
def test_a_container_gets_gpus_if_the_recipe_and_the_host_have_one_or_the_user_chooses(
    monkeypatch, gpu, present, option, choice
):
    paper = {"title": "T", "venue": "V", "year": 2020, "licence": "none"}
    variants = {"v": {"base": "debian:12", "requires": {"gpu": gpu}}}
    recipe = Recipe.model_validate({"name": "gnn", "paper": paper, "variants": variants})
    target = Target(recipe, "v", Path("gnn.yaml"))
    monkeypatch.setattr(host_gpu, "has_device_file", lambda: present)
    assert gpus_for(Engine(None), target, option) == choice  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="not a choice of GPUs"):
        gpus_for(Engine(None), target, "some")  # type: ignore[arg-type]


def test_values_of_an_environment_file_are_hidden_in_output_and_on_the_screen():
    calls: list[dict] = []

    def execute(argv: list[str], **options: object) -> Completed:
        calls.append(options)
        return Completed(0, "token hunter2 hunter2-long 1", "hunter2")

    done = hiding(execute, ["1", "hunter2", "hunter2-long"])(["x"], workdir="/w")
    assert (done.stdout, done.stderr) == ("token *** *** 1", "***")
    assert calls == [{"workdir": "/w", "logged": False}]
    assert hiding(execute, ["1"]) is execute

    def shown(argv: list[str], on_output: Callable[[str, str], None], logged: bool) -> Completed:
        for stream, text in (("stdout", "token hun"), ("stderr", "hunter2"), ("stdout", "ter2 given\nthe rest")):
            on_output(stream, text)
        return Completed(0)

    seen: list[tuple[str, str]] = []
    hiding(shown, ["hunter2"])(["x"], logged=True, on_output=lambda stream, text: seen.append((stream, text)))
    assert seen == [("stdout", "token *** given\n"), ("stdout", "the rest"), ("stderr", "***")]


def test_a_mark_differs_by_value_and_by_user_and_is_no_plain_hash(monkeypatch, tmp_path):
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path))
    values = {"A": "0", "B": "1", "C": "0"}
    mine = marks(values)
    assert mine == marks(values) and mine["A"] == mine["C"] != mine["B"]
    assert mine["A"] not in hashlib.sha256(b"0").hexdigest()
    assert (tmp_path / "state" / "variables.key").stat().st_mode & 0o777 == 0o600
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path / "other"))
    assert marks({"A": "0"})["A"] != mine["A"] and marks({}) == {}


class Waits(Exception):
    """In place of waiting."""


class Node(Machine):
    """A node that is the machine of this identity, whatever it is called."""

    def __init__(self, identity):
        self.identity = lambda: identity


@pytest.mark.parametrize(
    ("first", "second", "waits"),
    [
        (None, None, True), (None, "device=0", True), ("device=0", None, True), ("device=0", "device=0", True),
        ("device=0,1", "device=1", True), ("device=1,0", "device=0,1", True), ("2", "device=0", True),
        ("device=0", "device=GPU-5d", True),
        ("device=GPU-5d", "device=1", True), ("device=0", "device=1", False), ("device=0,2", "device=1,3", False),
    ],
)  # fmt: skip
def test_benchmarks_share_a_machine_only_on_gpus_of_their_own(first, second, waits, monkeypatch, tmp_path):
    def notify(line):
        raise Waits(line)

    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path))
    machine = Machine()
    with reporting(notify), machine_lock(first, machine):
        with machine_lock(second, Node("a/../node")):
            pass
        refused = pytest.raises(Waits, match="another benchmark") if waits else nullcontext()
        for same in (machine, Node(machine.identity())):
            with refused, machine_lock(second, same):
                pass
    with machine_lock(second, machine):
        pass


def test_each_choice_of_gpus_has_a_container_of_its_own():
    names = [bench_name(choice) for choice in (None, "2", "device=0", "device=0,1")]
    assert names == ["bench", "bench", "bench-gpu0", "bench-gpu0-gpu1"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1), ("1.5", 1.5), ("true", True), ("row", "row"), ('"1"', "1"), ("a=b", "a=b"), ('""', ""),
        ("9" * 24, 10**24 - 1), (f"'{10**38}'", str(10**38)),
    ],
)  # fmt: skip
def test_values_of_variables_are_those_of_yaml(text, value):
    name, parsed = parameter(f"A={text}")
    assert (name, parsed, type(parsed)) == ("A", value, type(value))


def test_other_variables_are_refused():
    values = ("", "[1]", "{b: 1}", ".nan", ".inf", "*x", "~", "9" * 25)
    for text in ("A", "=1", "1A=1", "A B=1", "A;x=1", *(f"A={value}" for value in values)):
        with pytest.raises(UsageError, match="--param"):
            parameter(text)


@pytest.mark.parametrize(
    ("name", "similar"),
    [
        ("THREAD", "; did you mean THREADS?"),
        ("SIZES", "; did you mean SIZE?"),
        ("threads", "; did you mean THREADS?"),
        ("OMP_NUM_THREAD", "; did you mean OMP_NUM_THREADS?"),
        ("batch", ""),
    ],
)
def test_a_name_that_no_benchmark_has_is_refused(name, similar):
    matrix = {"THREADS": [1], "OMP_NUM_THREADS": [1]}
    benchmark = Benchmark(command='run "$SIZE" ${MASK:-none}', matrix=matrix, parse={"format": "records"})
    check_names("x:cpu", [benchmark], ["THREADS", "SIZE", "MASK", "CUDA_LAUNCH_BLOCKING"], "x.yaml")
    with pytest.raises(UsageError) as refused:
        check_names("x:cpu", [benchmark], ["THREADS", name], "x.yaml")
    assert refused.value.message == f"no benchmark of x:cpu has the variable {name}{similar}"
