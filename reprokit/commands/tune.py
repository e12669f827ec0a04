"""`reprokit tune`."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reprokit import completion, paths
from reprokit.bench import extension, tuning
from reprokit.bench.tuning import Dtype, Mask, PlanSearch, SearchProgress, SearchReader
from reprokit.commands import _options as options
from reprokit.commands._shown import notify
from reprokit.commands.bench import opened_bench
from reprokit.display import ProgressDisplay
from reprokit.errors import ReprokitError, WorkFailed
from reprokit.filelocks import file_lock
from reprokit.formatting import clock
from reprokit.recipe import find
from reprokit.recipe.model import Benchmark, Parse
from reprokit.results import lines
from reprokit.tables import table
from reprokit.untrusted.text import dump, echo

if TYPE_CHECKING:
    from rich.text import Text

_SHOWN_LINES, _SHOWN_CHARACTERS = 20, 20_000
# The search needs no GPU by itself.
_RUNS = {"tune": Benchmark(command=tuning.PROGRAM, parse=Parse(format="records"))}
_COLUMNS = ("strategy", "seeds", "measurements", "best", "within 2 % after", "outside measuring")


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
) -> None:
    """Search for the fastest way to fuse the operators of a BERT layer.

    Runs in the container of a recipe with torch 2.0 or newer, by default that of operator-fusion. Times are multiples
    of that of the whole layer under torch.compile. Measurements are kept in the recipe's workspace, so that the same
    command goes on where it was stopped, and are recorded in results/NAME.jsonl below the current folder.
    """
    target = find.target(name)
    file = Path(lines.FOLDER) / f"{target.recipe.name}.jsonl"
    known = lines.read(file) if file.is_file() else []
    shape: dict[str, str | int | None] = {
        "batch": batch, "seq": seq, "mask": mask, "heads": heads, "head-size": head_size, "layers": layers,
        "window": window, "dtype": dtype, "device": device, "threads": threads,
    }  # fmt: skip
    files = extension.sources(notify) | extension.sources(notify, tuning.RECIPE)
    lock = file_lock(paths.state() / "bench.lock", "another benchmark is running: waiting for it", notify)
    with lock, options.engine_on(on) as there, opened_bench(there, target, gpus, _RUNS, stale, {}) as opened:
        engine, container, found = opened
        folder = extension.send(engine, container, found.execute, files)
        search = PlanSearch(shape, strategies, budget, seeds, found.origin.image_digest, extension.digest(files))
        tail = ""
        with SearchDisplay(sys.stderr) as shown:
            reader = SearchReader(shown.update)

            def read(stream: str, text: str) -> None:
                nonlocal tail
                if stream == "stdout":
                    reader.add(text)
                else:
                    tail = (tail + text)[-_SHOWN_CHARACTERS:]

            try:
                records = found.measure("tune", search.benchmark(), folder, read)
            except ReprokitError:
                for line in tail.splitlines()[-_SHOWN_LINES:]:
                    shown.notify(f"  {line}")
                raise
    new = search.new(records, known)
    lines.append(Path.cwd(), str(file), new)
    if reader.summary is None:
        raise WorkFailed("the search printed no summary", target.label, "its measurements are recorded")
    if as_json:
        dump(tuning.as_json(reader.summary, records))
    else:
        _show(reader.summary)
    notify(f"recorded {len(new)} new measurements in {file}")
    if reader.summary.plotted:
        notify(f"plot of the best so far: {search.plot} in the container")


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

    def update(self, found: SearchProgress) -> None:
        self._searches[found.strategy] = found
        self.often(found.strategy, tuning.shown_progress(found))

    def render(self) -> Text:
        from rich.text import Text

        searches = list(self._searches.values())
        bests = [each.best for each in searches if each.best]
        best = min(bests, key=lambda each: each.time, default=None)
        head = f"best so far: plan {best.plan}, {best.time:.3f} of the compiled layer" if best else "best so far: none"
        took = clock(time.monotonic() - self._began)
        rows = [f"{head}  {took}", *(f"  {tuning.shown_progress(each)}" for each in searches)]
        return Text("\n".join(rows), no_wrap=True, overflow="ellipsis")
