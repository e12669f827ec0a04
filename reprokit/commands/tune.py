"""`reprokit tune`."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from reprokit import completion, paths
from reprokit.bench import extension, tuning
from reprokit.bench.container import machine_lock
from reprokit.bench.measure import opened_bench
from reprokit.bench.tuning import Dtype, Mask, PlanSearch, SearchProgress, SearchReader
from reprokit.commands import _options as options
from reprokit.display import ProgressDisplay, notify
from reprokit.errors import ReprokitError, UsageError, WorkFailed
from reprokit.filelocks import file_lock
from reprokit.formatting import clock
from reprokit.recipe import find
from reprokit.recipe.model import Benchmark, Parse
from reprokit.results import lines
from reprokit.tables import table
from reprokit.untrusted.text import dump, echo

if TYPE_CHECKING:
    from rich.text import Text

    from reprokit.bench.run import Bench
    from reprokit.recipe.find import Target
    from reprokit.results.record import Record
    from reprokit.sweep.plan_search import MachineFields

_SHOWN_LINES, _SHOWN_CHARACTERS = 20, 20_000
# The search needs no GPU by itself.
_RUNS = {"tune": Benchmark(command=tuning.PROGRAM, parse=Parse(format="records"))}
_COLUMNS = ("strategy", "seeds", "measurements", "best", "seeds within 2 %", "within 2 % after", "outside measuring")


def tune(
    name: str = typer.Argument(tuning.RECIPE, metavar="NAME[:VARIANT]", autocompletion=completion.targets),
    strategies: Annotated[
        list[str],
        typer.Option(
            "--strategy",
            parser=tuning.strategy,
            metavar="|".join(tuning.STRATEGIES),
            help="How to search; several are compared.",
            autocompletion=completion.choices(*tuning.STRATEGIES),
        ),
    ] = ["exact"],  # noqa: B006 - typer's own style; it is only read
    budget: int = typer.Option(128, metavar="N", min=1, help="Measurements of a search; exact makes 131 at most."),
    seeds: int = typer.Option(1, metavar="N", min=1, max=1000, help="Searches of each strategy, except exact."),
    batch: int = typer.Option(8, min=1),
    seq: int = typer.Option(256, min=1, help="Length of the sequences."),
    mask: Mask = "strided",
    heads: int = typer.Option(12, min=1),
    head_size: int = typer.Option(64, "--head-size", min=1),
    layers: int = typer.Option(1, min=1),
    window: Annotated[
        int | None, typer.Option(min=1, help="Keys seen on each side, of masks with a window; by default seq / 16.")
    ] = None,
    dtype: Dtype = "float32",
    device: str = typer.Option("cpu", metavar="cpu|cuda|cuda:N", help="Where the layer runs."),
    threads: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Threads of torch; with 1, other programs add nothing to the times."),
    ] = None,
    gpus: options.Gpus = None,
    stale: bool = options.flag("--stale", "Measure the image although recipe or lock have changed since it was built."),
    as_json: bool = typer.Option(False, "--json", help="Print the result and the records as JSON."),
    on: options.On = None,
    runner: Annotated[
        Literal["here", "ray"],
        typer.Option(
            metavar="here|ray",
            help="Where the times are measured: `ray` gives the measurements to a cluster.",
            autocompletion=completion.choices("here", "ray"),
        ),
    ] = "here",
    measurements: Annotated[
        list[str], typer.Option("--measure", hidden=True, help="What a worker of --runner ray measures.")
    ] = [],  # noqa: B006 - typer's own style; it is only read
) -> None:
    """Search for the fastest way to fuse the operators of a BERT layer.

    Runs in the container of a recipe with torch 2.0 or newer, by default that of operator-fusion. Times are multiples
    of that of the whole layer under torch.compile. Measurements are kept in the recipe's workspace, so that the same
    command goes on where it was stopped, and are recorded in results/NAME.jsonl below the current folder. With
    --runner ray the machines of a Ray cluster measure side by side; those unlike most others are left out.
    """
    target = find.target(name)
    _check_runner(runner, on, gpus, device)
    file = Path(lines.FOLDER) / f"{target.recipe.name}.jsonl"
    lines.check_writable(file)
    known = lines.read(file) if file.is_file() else []
    shape: dict[str, str | int | None] = {
        "batch": batch, "seq": seq, "mask": mask, "heads": heads, "head-size": head_size, "layers": layers,
        "window": window, "dtype": dtype, "device": device, "threads": threads,
    }  # fmt: skip
    files = extension.sources() | extension.sources(tuning.RECIPE)
    # A search on a cluster has a container of its own: this machine may be a worker, too.
    purpose, gpus = ("search", "none") if runner == "ray" else ("", gpus)
    search_lock = file_lock(paths.state() / "search.lock", "another search is running: waiting for it")
    with (
        _cluster(runner) as ray,
        options.engine_on(on) as engine,
        search_lock if purpose else machine_lock(gpus, engine.host),
        opened_bench(engine, target, gpus, _RUNS, stale, {}, purpose) as (container, found),
    ):
        folder = extension.send(engine, container, found.execute, files)
        search = PlanSearch(shape, strategies, budget, seeds, found.origin.image_digest, extension.digest(files))
        if measurements:
            dump({"records": [json.loads(each.to_json()) for each in _single(found, search, folder, measurements)]})
            return
        with SearchDisplay(sys.stderr) as shown:
            searching = _Searching(target, found, search, folder, file, known, shown)
            summary, records, new = searching.on_ray(ray, stale) if ray else searching.here()
    if as_json:
        dump(tuning.as_json(summary, records))
    else:
        _show(summary)
    notify(f"recorded {len(new)} new measurements in {file}")
    if summary.plotted:
        notify(f"plot of the best so far: {search.plot} in the container")


def _cluster(runner: str) -> AbstractContextManager[Any]:
    """The module ray, connected to a cluster; None without --runner ray."""
    if runner != "ray":
        return nullcontext()
    from reprokit.sweep import ray_cluster

    return ray_cluster.connected()


def _check_runner(runner: str, on: str | None, gpus: str | None, device: str) -> None:
    """Refuse options that name a machine or a GPU: the cluster chooses them. Raises UsageError."""
    if runner != "ray":
        return
    for option, value in (("--on", on), ("--gpus", gpus)):
        if value is not None:
            raise UsageError(f"{option} is not for --runner ray", hint="the cluster chooses machine and GPU")
    if device.startswith("cuda:"):
        raise UsageError("--runner ray gives each measurement one GPU", f"--device {device}", "write --device cuda")


def _single(found: Bench, search: PlanSearch, folder: str, names: Sequence[str]) -> list[Record]:
    """The records of these measurements, as `--runner ray` has a worker make them."""
    tail = ""

    def keep(stream: str, text: str) -> None:
        nonlocal tail
        tail = (tail + text)[-_SHOWN_CHARACTERS:] if stream == "stderr" else tail

    try:
        records = found.measure("tune", search.single(names), folder, keep)
    except ReprokitError as error:
        last = tail.strip().rpartition("\n")[2].removeprefix("error: ")
        error.message += f": {last}" if last else ""
        raise
    return list(map(search.named, records))


_Found = tuple[tuning.SearchSummary, "Sequence[Record]", "Sequence[Record]"]


@dataclass
class _Searching:
    """A search in an open container. `known` are the records that `file` already has."""

    target: Target
    bench: Bench
    search: PlanSearch
    folder: str
    file: Path
    known: Sequence[Record]
    shown: SearchDisplay

    def here(self) -> _Found:
        """The summary, the records of the search, and those of them that are new. Raises ReprokitError."""
        tail = ""
        reader = SearchReader(self.shown.update)

        def read(stream: str, text: str) -> None:
            nonlocal tail
            if stream == "stdout":
                reader.add(text)
            else:
                tail = (tail + text)[-_SHOWN_CHARACTERS:]

        try:
            records = self.bench.measure("tune", self.search.benchmark(), self.folder, read)
        except ReprokitError:
            for line in tail.splitlines()[-_SHOWN_LINES:]:
                notify(f"  {line}")
            raise
        new = self.search.new(records, self.known)
        self._record(new)
        return self._summary(reader), records, new

    def on_ray(self, ray: Any, stale: bool) -> _Found:
        """As `here`, with measurements of a Ray cluster; they are recorded as they come. Raises ReprokitError."""
        from reprokit.sweep import ray_cluster
        from reprokit.sweep.plan_search import ClusterSearch, by_tune, of_search, search_job, stored

        reader = SearchReader(self.shown.update)
        new: list[Record] = []

        def replay(machine: MachineFields) -> Sequence[str]:
            nonlocal reader
            reader = SearchReader(self.shown.update)
            done = self.bench.execute(["bash", "-c", self.search.replay(machine)], workdir=self.folder)
            if done.exit_code:
                last = done.stderr.strip().rpartition("\n")[2].removeprefix("error: ")
                raise WorkFailed(f"the search ended with exit code {done.exit_code}: {last}", self.target.label)
            reader.add(done.stdout)
            return reader.missing

        def keep(records: Sequence[Record]) -> None:
            self._record(records)
            new.extend(records)
            words = ["sh", "-c", 'printf "%s\\n" "$@" >> "$0"', self.search.journal, *map(stored, records)]
            if self.bench.execute(words, logged=False).exit_code:
                raise WorkFailed("the container cannot store a measurement", self.search.journal)

        job = search_job(self.target, self.search, self.bench.origin.lock_hash, stale)
        runner = ray_cluster.runner(ray, measure=by_tune)
        cluster = ClusterSearch(self.search, job, runner, replay, keep, self.shown.measured)
        try:
            machine = cluster.run()
        except KeyboardInterrupt:
            notify(f"interrupted: {len(new)} measurements are recorded; the same command continues")
            raise
        alike = [record for record in (*self.known, *new) if of_search(record, self.search, job, machine)]
        return self._summary(reader), alike, new

    def _record(self, records: Sequence[Record]) -> None:
        lines.append(Path.cwd(), str(self.file), records)

    def _summary(self, reader: SearchReader) -> tuning.SearchSummary:
        if reader.summary is None:
            raise WorkFailed("the search printed no summary", self.target.label, "its measurements are recorded")
        return reader.summary


def _show(found: tuning.SearchSummary) -> None:
    echo(f"best plan: {found.plan} ({found.segments}), {found.time:.3f} of the time of the whole compiled layer")
    echo()
    table(_COLUMNS, tuning.table(found), words=(0,))
    for line in tuning.comparison(found):
        echo(line)


class SearchDisplay(ProgressDisplay):
    """The best plan so far, and below it how far each strategy is."""

    def __init__(self, stream: object, every_s: float = 5.0) -> None:
        super().__init__(stream, every_s)  # type: ignore[arg-type]
        self._searches: dict[str, SearchProgress] = {}
        self._measured = ""

    def update(self, found: SearchProgress) -> None:
        self._searches[found.strategy] = found
        self.often(found.strategy, tuning.shown_progress(found))

    def measured(self, done: int, count: int) -> None:
        """Show how many jobs of a cluster have answered."""
        self._measured = f"{done} of {count} jobs of this round"
        self.often("jobs", self._measured)

    def render(self) -> Text:
        from rich.text import Text

        searches = list(self._searches.values())
        bests = [each.best for each in searches if each.best]
        best = min(bests, key=lambda each: each.time, default=None)
        head = f"best so far: plan {best.plan}, {best.time:.3f} of the compiled layer" if best else "best so far: none"
        took = clock(time.monotonic() - self._began)
        rows = [f"{head}  {took}", *(f"  {tuning.shown_progress(each)}" for each in searches)]
        rows += [f"  {self._measured}"] if self._measured else []
        return Text("\n".join(rows), no_wrap=True, overflow="ellipsis")
