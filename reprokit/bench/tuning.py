"""The search for the fastest fusion plan in a container: its command, and what it prints.

The program is workspaces/operator_fusion. Everything that it prints is untrusted.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, Field, FiniteFloat

from reprokit.errors import UsageError
from reprokit.recipe.model import Benchmark, Parse
from reprokit.recipe.spelling import nearest
from reprokit.results.record import Record
from reprokit.untrusted.documents import validated

RECIPE = "operator-fusion"
Strategy = Literal["exact", "xgboost", "random", "anneal", "reward"]
STRATEGIES: tuple[str, ...] = get_args(Strategy)
Mask = Literal["none", "causal", "strided", "fixed", "window", "dilated", "longformer", "bigbird"]
Dtype = Literal["float32", "bfloat16", "float16"]

_MODULE = "python3 -m operator_fusion"
PROGRAM = f"{_MODULE} tune"
# In the workspace, so that a search that was stopped goes on in another container.
_JOURNALS = "/workspace/searches"
_LONGEST = 1 << 16  # characters of a line of progress, or of the summary

_Count = Annotated[int, Field(ge=0, le=1_000_000)]
_Plan = Annotated[int, Field(ge=0, le=65535)]
_Ratio = Annotated[FiniteFloat, Field(gt=0, le=1e6)]


def strategy(name: str) -> str:
    """The strategy of this name. Raises UsageError."""
    if name not in STRATEGIES:
        raise UsageError(
            f"unknown strategy {name!r}{nearest(name, STRATEGIES)}", hint=f"one of {', '.join(STRATEGIES)}"
        )
    return name


class BestPlan(BaseModel):
    """`time` is a multiple of that of the whole compiled layer."""

    plan: _Plan
    time: _Ratio


class SearchProgress(BaseModel):
    """A search after some of its measurements; `best` is None until a whole plan was measured."""

    strategy: Strategy
    seed: _Count
    used: _Count
    budget: _Count
    best: BestPlan | None


class SearchRow(BaseModel):
    """One strategy, medians over its seeds.

    `needed`: measurements until it stays within 2 % of the best; None if half of the seeds do not. `reached`: how
    many seeds do. `own_share`: the share of time outside of measuring and compiling; None if nothing was measured
    anew.
    """

    strategy: Strategy
    seeds: _Count
    measurements: _Count
    best: _Ratio
    needed: _Count | None
    reached: _Count
    own_share: Annotated[FiniteFloat, Field(ge=0, le=1)] | None


class VersusRow(BaseModel):
    """The time of a strategy's best plan over that of the first strategy, with the 95 % interval."""

    strategy: Strategy
    plan: _Plan
    median: _Ratio
    low: _Ratio
    high: _Ratio


class SearchSummary(BaseModel):
    """The result of all searches. `segments` is the best plan as text; `time` as in `BestPlan`."""

    plan: _Plan
    segments: Annotated[str, Field(pattern=r"^[0-9 ]{1,64}$")]
    time: _Ratio
    against: Strategy
    plotted: bool
    rows: Annotated[list[SearchRow], Field(min_length=1, max_length=5)]
    versus: Annotated[list[VersusRow], Field(max_length=5)]


_Measurement = Annotated[str, Field(pattern=r"^(part|plan|confirmed|versus)( [0-9]{1,5}){1,3}$")]


class _Line(BaseModel):
    progress: SearchProgress | None = None
    summary: SearchSummary | None = None
    missing: Annotated[list[_Measurement], Field(min_length=1, max_length=1000)] | None = None


@dataclass(frozen=True)
class PlanSearch:
    """`shape` is what a measurement depends on, `strategies` to `seeds` which measurements are made.

    `image` and `sources` are digests: other images and programs share no measurement.
    """

    shape: Mapping[str, str | int | None]
    strategies: Sequence[str]
    budget: int
    seeds: int
    image: str
    sources: str

    @property
    def journal(self) -> str:
        """Where the container keeps the measurements, below its workspace."""
        return f"{_JOURNALS}/{self.image.removeprefix('sha256:')[:12]}-{self.sources[:12]}.jsonl"

    @property
    def plot(self) -> str:
        return self.journal.removesuffix(".jsonl") + ".png"

    def benchmark(self) -> Benchmark:
        return Benchmark(command=self._search(), parse=Parse(format="records"))

    def replay(self, machine: Mapping[str, str | int]) -> str:
        """The command that measures nothing: it searches with what is stored of `machine`, or names what is missing."""
        return self._search("--machine", json.dumps(machine))

    def single(self, measurements: Sequence[str]) -> Benchmark:
        """Make only these measurements, and print their records."""
        command = f"exec {_MODULE} measure {shlex.join([*self.options, *measurements])}"
        return Benchmark(command=command, parse=Parse(format="records", expect=len(measurements)))

    @property
    def options(self) -> list[str]:
        """The shape as options of `reprokit tune` and of the program."""
        return [f"--{name}={value}" for name, value in self.shape.items() if value is not None]

    @property
    def params(self) -> dict[str, str | int]:
        """The shape as the parameters of every record."""
        return {name.replace("-", "_"): value for name, value in self.shape.items() if value is not None}

    @property
    def command(self) -> str:
        """The command without strategy, budget and seeds, which do not change the measured times."""
        return f"{PROGRAM} {shlex.join(self.options)}"

    def _search(self, *more: str) -> str:
        search = ["--strategy", *dict.fromkeys(self.strategies), "--budget", str(self.budget)]
        files = ["--results", self.journal, "--plot", self.plot]
        words = [*search, "--seeds", str(self.seeds), "--json", *files, *more]
        return f"mkdir -p {_JOURNALS} && exec {self.command} {shlex.join(words)}"

    def new(self, records: Iterable[Record], known: Iterable[Record]) -> list[Record]:
        """The records that are not among `known`, as `named`.

        A search that goes on reports its earlier measurements again. Equal samples of the same job are the same
        measurement.
        """
        before = {_key(record) for record in known}
        return [self.named(record) for record in records if _key(record) not in before]

    def named(self, record: Record) -> Record:
        """The record as it is kept: of the command only what the samples depend on, and the program's digest."""
        return replace(record, command=self.command, files={**record.files, RECIPE: self.sources})


def _key(record: Record) -> str:
    return json.dumps([record.metric, record.params, record.samples], sort_keys=True)


class SearchReader:
    """Reads progress, the summary and names of missing measurements from the program's output, in pieces."""

    def __init__(self, progress: Callable[[SearchProgress], None]) -> None:
        self.summary: SearchSummary | None = None
        self.missing: Sequence[str] = ()
        self._progress = progress
        self._rest = ""
        self._too_long = False

    def add(self, text: str) -> None:
        for line in self._lines(text):
            if not line.startswith(('{"progress"', '{"summary"', '{"missing"')):
                continue
            try:
                found = validated(_Line, line)
            except ValueError:
                continue
            if found.progress:
                self._progress(found.progress)
            self.summary = found.summary or self.summary
            self.missing = found.missing or self.missing

    def _lines(self, text: str) -> Iterator[str]:
        """The lines that `text` completes. One that is too long is dropped."""
        *complete, rest = text.split("\n")
        if complete:
            complete[0] = "" if self._too_long else self._rest + complete[0]
            self._rest, self._too_long = "", False
        self._rest += rest
        if len(self._rest) > _LONGEST:
            self._rest, self._too_long = "", True
        yield from (line for line in complete if len(line) <= _LONGEST)


def shown_progress(found: SearchProgress) -> str:
    best = f"plan {found.best.plan}, {found.best.time:.3f}" if found.best else "measuring parts"
    return f"{found.strategy}, seed {found.seed}: {found.used} of {found.budget} measurements, {best}"


def table(found: SearchSummary) -> list[tuple[str, ...]]:
    """Rows of strategy, seeds, measurements, best time, seeds within 2 %, measurements needed, time outside."""
    return [
        (
            row.strategy,
            str(row.seeds),
            str(row.measurements),
            f"{row.best:.3f}",
            str(row.reached),
            f"> {row.measurements}" if row.needed is None else str(row.needed),
            "" if row.own_share is None else f"{100 * row.own_share:.0f} %",
        )
        for row in found.rows
    ]


def comparison(found: SearchSummary) -> list[str]:
    """A line for each strategy whose best plan is another one than that of the first strategy."""
    return [
        f"{each.strategy}'s best, plan {each.plan}: {each.median:.3f} [{each.low:.3f}, {each.high:.3f}] of the time of "
        f"{found.against}'s best"
        for each in found.versus
    ]


def as_json(found: SearchSummary, records: Sequence[Record]) -> dict[str, Any]:
    return {**found.model_dump(), "records": [json.loads(record.to_json()) for record in records]}
