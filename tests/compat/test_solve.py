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
from reprokit.compat.model import PURPOSES, Stack
from reprokit.compat.releases import releases
from reprokit.compat.solve import Conflicts, PinOption, choices, solve
from reprokit.compat.view import View
from tests.support.stacks import stack

FACTS = bundled()
NAMES = ("cuda", "gcc", "python", "torch", "torchvision", "tvm", "llvm", "cmake", "numpy", "cutlass", "flash_attn",
         "cudnn", "dgl", "distro")  # fmt: skip
GPUS = ("K80", "V100", "A100", "RTX 3090", "H100", "B200")
MAX_STACKS = 500  # that brute force tries

Cost = tuple[int, int, int, int]


def _errors(start: Stack, pins: dict[str, str]) -> set[tuple[str, tuple[str, ...]]]:
    """The errors of `check`, without the nearest pins, which take long."""
    found = judge(View(FACTS, replace(start, pins=pins)))
    return {(f.rule, f.subjects) for _, f in found if f.severity == "error"}


class _BruteForce:
    """A random stack of two to five pins, and which of its values pass, by trying them all."""

    def __init__(self, seed: int) -> None:
        draw = random.Random(seed)
        names = draw.sample(NAMES, draw.randint(2, 5))
        pins = {
            name: draw.choice(list(FACTS.distros.distros) if name == "distro" else releases(FACTS, name))
            for name in names
        }
        gpus = [parse_gpu(FACTS, draw.choice(GPUS))] if draw.random() < 0.6 else []
        purpose, driver = draw.choice(PURPOSES), draw.choice([None, "450.80.02", "535.54.03"])
        self.start = Stack(pins, purpose, tuple(gpu for gpu in gpus if gpu), driver)
        # So many pins may not change that MAX_STACKS are left.
        self.fixed: set[str] = set()
        view = View(FACTS, self.start)
        while prod(len(choices(view, name)) for name in names if name not in self.fixed) > MAX_STACKS:
            self.fixed.add(draw.choice([name for name in names if name not in self.fixed]))
        self.conflicts = Conflicts(FACTS, self.start)

    def candidates(self, start: Stack | None = None) -> list[tuple[Cost, dict[str, str]]]:
        """Every stack with its cost, the cheapest first."""
        start = start or self.start
        view = View(FACTS, start)
        offered = [[PinOption(start.pins[n], 0, 0)] if n in self.fixed else choices(view, n) for n in start.pins]
        stacks = []
        for options in product(*offered):
            pins = {name: option.text for name, option in zip(start.pins, options, strict=True)}
            changed = sum(pins[name] != start.pins[name] for name in pins)
            sums = [sum(getattr(option, part) for option in options) for part in ("steps", "tier", "rank")]
            stacks.append(((changed, *sums), pins))
        return sorted(stacks, key=lambda candidate: candidate[0])

    def passes(self, pins: dict[str, str]) -> bool:
        return not any(self.conflicts.of(pins))

    def best(self) -> Cost | None:
        """The cost of the nearest stack without doubtful warnings; if there is none, of the nearest that passes."""
        strict = Conflicts(FACTS, self.start)
        strict.doubts = True
        passing = [(cost, pins) for cost, pins in self.candidates() if self.passes(pins)]
        certain = (cost for cost, pins in passing if not any(strict.of(pins)))
        return next(certain, passing[0][0] if passing else None)

    def can_pass(self, names: list[str]) -> bool:
        """Whether some values of these pins alone pass."""
        part = replace(self.start, pins={name: self.start.pins[name] for name in names})
        return any(self.passes(pins) for _, pins in self.candidates(part))


def _failing(count: int) -> Iterator[_BruteForce]:
    """Random stacks that do not pass."""
    tried = map(_BruteForce, range(10**6))
    return islice((each for each in tried if not each.passes(dict(each.start.pins))), count)


@pytest.mark.parametrize("count", [40, pytest.param(200, marks=pytest.mark.proof)])
@pytest.mark.slow
def test_the_nearest_stack_and_the_smallest_core_are_those_of_brute_force(count: int) -> None:
    changes, cores = set(), 0
    for tried in _failing(count):
        solution = solve(FACTS, tried.start, tried.fixed)
        best = tried.best()
        changes.add(len(solution.changes))
        if best is not None:
            assert solution.pins is not None and not _errors(tried.start, solution.pins), tried.start
            assert next(cost for cost, pins in tried.candidates() if pins == solution.pins) == best, tried.start
            continue
        assert solution.pins is None, tried.start
        cores += 1
        core = [name for name in (each.partition("=")[0] for each in solution.core) if name in tried.start.pins]
        assert not tried.can_pass(core), (tried.start, solution.core)
        for size in range(len(core)):
            for smaller in combinations(tried.start.pins, size):
                assert tried.can_pass(list(smaller)), (tried.start, solution.core, smaller)
    assert {0, 1} <= changes and (count < 200 or 2 in changes)
    assert cores > count / 4


@pytest.mark.slow
def test_remembered_errors_are_those_of_check() -> None:
    for tried in _failing(40):
        for _, pins in tried.candidates()[::97]:
            found = {(c.finding.rule, c.finding.subjects) for _, c in tried.conflicts.of(pins)}
            assert found == _errors(tried.start, pins), pins


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


def _offered(pins: str, name: str) -> list[PinOption]:
    return choices(View(FACTS, stack(pins)), name)


@pytest.mark.parametrize(
    ("pins", "name", "texts"),
    [
        ("cuda=11.3", "cuda", ["11.4", "11.2", "11.5", "11.1"]),
        ("gcc=12", "gcc", ["13", "11", "14", "10"]),
        ("gcc=10.3", "gcc", ["11", "9"]),  # not 10, which 10.3 is
        ("torchvision=0.15.2+cu117", "torchvision", ["0.15.2+cu118", "0.15.1+cu117", "0.15.1+cu118"]),
        ("torch=1.9.0", "torch", ["1.9.0+cu111", "1.9.0+cu102", "1.9.1", "1.9.1+cu111", "1.9.1+cu102", "1.10.2"]),
        ("torch=1.9.0+cpu", "torch", ["1.9.1+cpu", "1.10.2+cpu"]),
        ("distro=debian:12", "distro", ["debian:11", "debian:13", "debian:10"]),
        ("base=debian:12", "base", ["debian:11", "debian:13"]),
    ],
)
def test_near_series_come_first_and_in_each_the_newest_patch(pins: str, name: str, texts: list[str]) -> None:
    assert [option.text for option in _offered(pins, name)[1:]][: len(texts)] == texts


def test_the_pin_itself_comes_first_and_costs_nothing() -> None:
    first, *others = _offered("cuda=11.3.1", "cuda")
    assert first == PinOption("11.3.1", 0, 0)
    assert first.text not in [option.text for option in others]


@pytest.mark.parametrize(
    ("pins", "expected"),
    [
        ("torch=1.9.0", {"1.9.1": 0, "1.10.0": 1, "1.10.2": 1, "1.8.0": 1, "1.11.0": 2}),
        (
            "base=nvidia/cuda:11.3.0-devel-ubuntu18.04",  # as far as its CUDA and its distribution
            {
                "nvidia/cuda:11.3.1-devel-ubuntu18.04": 0,
                "nvidia/cuda:11.3.1-devel-ubuntu20.04": 1,
                "nvidia/cuda:11.4.3-devel-ubuntu20.04": 2,
            },
        ),
    ],
)
def test_patches_of_a_series_are_as_near(pins: str, expected: dict[str, int]) -> None:
    steps = {option.text: option.steps for option in _offered(pins, pins.partition("=")[0])}
    assert {text: steps[text] for text in expected} == expected
