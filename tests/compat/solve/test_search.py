"""`solve` against brute force: the nearest stack that passes, and the smallest set of pins that cannot go together."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, islice, product
from math import prod

import pytest

from reprokit.compat.evaluate import evaluate, judge
from reprokit.compat.facts import bundled
from reprokit.compat.gpu import parse_gpu
from reprokit.compat.known import releases
from reprokit.compat.model import PURPOSES, Stack
from reprokit.compat.solve.choices import PinOption, choices
from reprokit.compat.solve.conflicts import Conflicts
from reprokit.compat.solve.search import Solution, solve
from reprokit.compat.view import View
from tests.support.stacks import stack

FACTS = bundled()
_NAMES = ("cuda", "gcc", "python", "torch", "torchvision", "tvm", "llvm", "cmake", "numpy", "cutlass", "flash_attn",
          "cudnn", "dgl", "distro")  # fmt: skip
_GPUS = ("K80", "V100", "A100", "RTX 3090", "H100", "B200")
_MOST = 500  # stacks that brute force looks at


def _random_stack(seed: int) -> tuple[Stack, set[str]]:
    """A stack of two to five pins, and those that may not change so that brute force stays quick."""
    draw = random.Random(seed)
    names = draw.sample(_NAMES, draw.randint(2, 5))
    pins = {
        name: draw.choice(list(FACTS.distros.distros) if name == "distro" else releases(FACTS, name)) for name in names
    }
    gpus = [parse_gpu(FACTS, draw.choice(_GPUS))] if draw.random() < 0.6 else []
    made = Stack(
        pins, draw.choice(PURPOSES), tuple(g for g in gpus if g), draw.choice([None, "450.80.02", "535.54.03"])
    )
    view = View(FACTS, made)
    fixed: set[str] = set()
    while prod(len(choices(view, name)) for name in names if name not in fixed) > _MOST:
        fixed.add(draw.choice([name for name in names if name not in fixed]))
    return made, fixed


def _errors(made: Stack, pins: dict[str, str]) -> set[tuple[str, tuple[str, ...]]]:
    """What `check` says, without the nearest pins, which take long."""
    found = judge(View(FACTS, replace(made, pins=pins)))
    return {(f.rule, f.subjects) for _, f in found if f.severity == "error"}


class _BruteForce:
    """Which values of the pins pass, found by trying them all."""

    def __init__(self, made: Stack, fixed: set[str]) -> None:
        self.made = made
        self.fixed = fixed
        self.conflicts = Conflicts(FACTS, made)  # remembers what a rule found; a test compares it with `evaluate`

    def passes(self, pins: dict[str, str]) -> bool:
        return not any(self.conflicts.of(pins))

    def best(self) -> tuple[int, int, int, int] | None:
        """The cost of the nearest stack without doubtful warnings; if there is none, of the nearest that passes."""
        sure = Conflicts(FACTS, self.made)
        sure.doubts = True
        passing = [(cost, pins) for cost, pins in _candidates(self.made, self.fixed) if self.passes(pins)]
        certain = (cost for cost, pins in passing if not any(sure.of(pins)))
        return next(certain, passing[0][0] if passing else None)

    def some(self, names: list[str]) -> bool:
        """Whether some values of these pins alone pass."""
        part = replace(self.made, pins={name: self.made.pins[name] for name in names})
        return any(self.passes(pins) for _, pins in _candidates(part, self.fixed))


def _candidates(made: Stack, fixed: set[str]) -> Iterator[tuple[tuple[int, int, int, int], dict[str, str]]]:
    """Every stack with its cost, the cheapest first."""
    view = View(FACTS, made)
    offered = [[PinOption(made.pins[n], 0, 0)] if n in fixed else choices(view, n) for n in made.pins]
    every = [
        ((sum(c.text != made.pins[n] for n, c in zip(made.pins, each, strict=True)), sum(c.steps for c in each),
          sum(c.tier for c in each), sum(c.rank for c in each)),
         {n: c.text for n, c in zip(made.pins, each, strict=True)})
        for each in product(*offered)
    ]  # fmt: skip
    return iter(sorted(every, key=lambda candidate: candidate[0]))


def _cost(made: Stack, fixed: set[str], solution: Solution) -> tuple[int, int, int, int]:
    return next(cost for cost, pins in _candidates(made, fixed) if pins == solution.pins)


def _failing(count: int) -> list[_BruteForce]:
    """Random stacks that do not pass."""
    every = (_BruteForce(*_random_stack(seed)) for seed in range(10**6))
    return list(islice((tried for tried in every if not tried.passes(dict(tried.made.pins))), count))


MANY = pytest.mark.parametrize("count", [40, pytest.param(200, marks=pytest.mark.proof)])


@MANY
@pytest.mark.slow
def test_the_nearest_stack_is_that_of_brute_force(count: int) -> None:
    changes = []
    for tried in _failing(count):
        solution = solve(FACTS, tried.made, tried.fixed)
        if (best := tried.best()) is None:
            assert solution.pins is None, tried.made
        else:
            assert solution.pins is not None and not _errors(tried.made, solution.pins), tried.made
            assert _cost(tried.made, tried.fixed, solution) == best, tried.made
        changes.append(len(solution.changes))
    assert {0, 1} <= set(changes) and (count < 200 or 2 in changes)


@MANY
@pytest.mark.slow
def test_a_core_has_no_values_that_pass_and_every_smaller_set_has_some(count: int) -> None:
    cores = 0
    for tried in _failing(count):
        solution = solve(FACTS, tried.made, tried.fixed)
        if solution.pins is not None:
            continue
        cores += 1
        core = [c.partition("=")[0] for c in solution.core if c.partition("=")[0] in tried.made.pins]
        assert not tried.some(core), (tried.made, solution.core)
        for size in range(len(core)):
            for smaller in combinations(tried.made.pins, size):
                assert tried.some(list(smaller)), (tried.made, solution.core, smaller)
    assert cores > count / 4


@pytest.mark.parametrize("gpu", ["H100", "RTX 5090", "B200"])
def test_a_doubtful_fact_does_not_make_a_stack_fit(gpu: str) -> None:
    made = stack("torch=1.10.0,cuda=11.3,gcc=9,python=3.8", gpu=gpu)
    solution = solve(FACTS, made)
    assert solution.pins is not None
    assert not [f.reason for _, f in judge(View(FACTS, replace(made, pins=solution.pins))) if f.doubtful]


def test_an_error_depends_on_no_pin_that_its_rule_has_no_use_for() -> None:
    """Each pin more is one whose values are all tried."""
    made = stack("cmake=4.0,tvm=0.7,distro=debian:12,base=debian:12")
    (conflict,) = (c for rule, c in Conflicts(FACTS, made).of(made.pins) if rule.id == "cmake-4")
    assert conflict.pins == {"cmake", "tvm"}


@pytest.mark.slow
def test_remembered_errors_are_those_of_check() -> None:
    for tried in _failing(40):
        for _, pins in islice(_candidates(tried.made, tried.fixed), 0, None, 97):
            found = {(c.finding.rule, c.finding.subjects) for _, c in tried.conflicts.of(pins)}
            assert found == _errors(tried.made, pins), pins


@pytest.mark.parametrize(
    ("pins", "gpu", "changes"),
    [
        ("cuda=10.2", "RTX 3090", {"cuda": "11.1"}),
        ("cuda=11.8,gcc=11", "RTX 3090", {}),
        ("tvm=0.7,llvm=12,distro=debian:13", "", {"llvm": "11", "distro": "debian:11"}),
        ("torch=1.8.0,python=3.10", "", {"python": "3.9"}),
        ("torch=2.0.0,torchvision=0.14.0", "", {"torchvision": "0.15.1"}),
        ("torch=2.4.0+cu124,torchvision=0.19.0+cu124", "B200", {"torch": "2.7.1+cu128", "torchvision": "0.22.1+cu128"}),
        ("tvm=0.7.0,llvm=12", "", {"llvm": "11"}),  # one step as TVM 0.8 is, but a tool
        ("torch=2.1.1+cu121,cuda=11.8", "", {"torch": "2.1.1+cu118"}),
        ("base=nvidia/cuda:11.3.0-devel-ubuntu18.04", "", {"base": "nvidia/cuda:11.3.1-devel-ubuntu18.04"}),
    ],
)
def test_what_changes(pins: str, gpu: str, changes: dict[str, str]) -> None:
    asked = stack(pins, gpu)
    solution = solve(FACTS, asked)
    assert {c.pin: c.new for c in solution.changes} == changes
    assert solution.pins == {**asked.pins, **changes}
    assert not [f for f in evaluate(FACTS, replace(asked, pins=solution.pins)) if f.severity == "error"]


def test_the_reason_of_a_change_is_an_error_of_the_stack_with_its_old_value() -> None:
    asked = stack("cuda=10.2,gcc=9,torch=1.8.0", "RTX 3090")
    for change in (solution := solve(FACTS, asked)).changes:
        assert solution.pins is not None
        back = replace(asked, pins={**solution.pins, change.pin: change.old})
        assert change.because.subjects in [f.subjects for f in evaluate(FACTS, back) if f.severity == "error"]


def test_pins_that_are_fixed_stay() -> None:
    asked = stack("tvm=0.7,llvm=12")
    assert [c.pin for c in solve(FACTS, asked, {"llvm"}).changes] == ["tvm"]
    assert [c.pin for c in solve(FACTS, asked, {"tvm"}).changes] == ["llvm"]
    stuck = solve(FACTS, asked, {"tvm", "llvm"})
    assert stuck.pins is None and set(stuck.core) == {"tvm=0.7", "llvm=12"} and stuck.reasons


def test_a_core_names_the_machine_only_where_it_matters() -> None:
    stuck = solve(FACTS, stack("cuda=10.2,gcc=8,cmake=3.18", "RTX 3090;V100"), {"cuda"})
    assert stuck.core == ("cuda=10.2", "gpu=RTX 3090 (sm_86)")


@pytest.mark.parametrize(
    "pins",
    ["gcc=a/b,cuda=11.8", "base=x:y", "distro=no-such", "torch=1.8.0+rocm4.0", "cuda=" + "9" * 18, "llvm=1..2",
     "tvm=).:-is.", "numpy=-1", "cudnn=~"],
)  # fmt: skip
def test_pins_of_a_strangers_recipe_are_no_program(pins: str) -> None:
    asked = stack(pins, "RTX 3090")
    solution = solve(FACTS, asked)
    assert solution.core or solution.pins is not None
    assert all(change.new != change.old for change in solution.changes)
