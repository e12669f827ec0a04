"""`reprokit bench`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reprokit import completion, paths
from reprokit.bench import extension, printed, record
from reprokit.bench.report import sections
from reprokit.bench.run import benchmarks as chosen_benchmarks
from reprokit.commands import _options as options
from reprokit.commands._shown import built, say, status
from reprokit.errors import EngineError, ReprokitError, UsageError, WorkFailed
from reprokit.filelocks import file_lock
from reprokit.recipe import find
from reprokit.recipe.find import Target
from reprokit.recipe.model import Benchmark, Claim
from reprokit.untrusted.text import console, dump, escaped

if TYPE_CHECKING:
    from reprokit.bench.record import Record
    from reprokit.bench.run import Bench
    from reprokit.engine import Engine
    from reprokit.supply.lock.model import PlainFile, RecordFile

_SHOWN_LINES, _SHOWN_CHARACTERS = 20, 20_000
_NO_GPU = "it needs a GPU, and the container has none"


def bench(
    name: str = typer.Argument(..., metavar="NAME[:VARIANT]", autocompletion=completion.targets),
    benchmarks: Annotated[list[str] | None, typer.Argument(metavar="BENCHMARK", help="Only these.")] = None,
    with_extension: bool = typer.Option(
        False, "--extension", help="Build, check and time the bundled attention extension in this container."
    ),
    gpus: options.Gpus = None,
    report: bool = typer.Option(
        False, "--report", help="Run nothing: show medians of the records, pooled where the conditions are the same."
    ),
    records: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With --report: read FILE instead, records or a benchmark's output."),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="With --report: draw the plots of the attention benchmark into DIR."),
    ] = None,
    as_json: bool = typer.Option(False, "--json", help="Print the records as JSON."),
) -> None:
    """Run a recipe's benchmarks and record the figures.

    Builds the image if necessary, and uses a separate container, so that manual changes do not affect the results.
    Records are appended to results/NAME.jsonl below the current folder.
    """
    target = find.target(name)
    file = Path("results") / f"{target.recipe.name}.jsonl"
    if report:
        every = printed.read(records, target.recipe.name) if records else record.read(file)
        kept = [r for r in every if _asked(r, name, benchmarks or [])]
        if plot:
            _draw(kept, plot)
        _show(kept, target.recipe.claims, as_json, {})
        return
    if records or plot:
        raise UsageError("--records and --plot need --report", hint="add --report")
    chosen = _chosen(target, benchmarks or [], with_extension)
    outcome = _Outcome()
    waiting = "another benchmark is running: waiting for it"
    # Benchmarks that run at the same time distort each other's results.
    lock = file_lock(paths.state() / "bench.lock", waiting, say)
    with lock, _opened(target, gpus, chosen) as (engine, container, found):
        folder = extension.send(engine, container, found.execute, extension.sources(say)) if with_extension else ""
        for title, benchmark in chosen.items():
            outcome.run(found, title, benchmark, folder, file)
    if not (outcome.records or outcome.failed):
        raise _nothing_runs(target, len(chosen))
    _show(outcome.records, target.recipe.claims, as_json, outcome.as_json())
    if outcome.records:
        say(f"recorded in {file}")
    outcome.raise_failure()


def _asked(found: Record, name: str, benchmarks: Sequence[str]) -> bool:
    variant = name.partition(":")[2]
    return variant in ("", found.variant) and (not benchmarks or found.benchmark in benchmarks)


def _chosen(target: Target, requested: list[str], with_extension: bool) -> Mapping[str, Benchmark]:
    if not with_extension:
        return chosen_benchmarks(target, requested)
    bundled = find.target(extension.RECIPE)
    return {f"extension.{name}": b for name, b in chosen_benchmarks(bundled, requested).items()}


def _draw(records: Sequence[Record], folder: Path) -> None:
    from reprokit.bench.attention import measured
    from reprokit.bench.plots import draw

    for file in draw(measured(records), folder):
        say(f"drawn: {file}")


class _Outcome:
    """The results of several benchmarks; one that fails stops no other."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.skipped: dict[str, str] = {}
        self.failed: dict[str, ReprokitError] = {}

    def run(self, found: Bench, title: str, benchmark: Benchmark, folder: str, file: Path) -> None:
        if benchmark.gpu and not found.hardware.has_gpu:
            self.skipped[title] = _NO_GPU
            say(f"skipped {title}: {_NO_GPU}")
            return
        tail = ""

        def keep(_stream: str, text: str) -> None:
            nonlocal tail
            tail = (tail + text)[-_SHOWN_CHARACTERS:]

        try:
            with status(f"{found.target.label} {title}: {benchmark.command}"):
                records = found.measure(title, benchmark, folder, keep)
        except WorkFailed as error:
            say(*(f"  {line}" for line in tail.splitlines()[-_SHOWN_LINES:]))
            self.failed[title] = error
            return
        record.append(Path.cwd(), str(file), records)
        self.records += records

    def as_json(self) -> dict[str, object]:
        return {
            "left_out": [{"benchmark": n, "reason": reason} for n, reason in self.skipped.items()],
            "failed": [{"benchmark": n, "reason": error.message} for n, error in self.failed.items()],
        }

    def raise_failure(self) -> None:
        errors = list(self.failed.values())
        if len(errors) == 1:
            raise errors[0]
        if errors:
            raise WorkFailed("; ".join(f"{error.where}: {error.message}" for error in errors), hint=errors[0].hint)


@contextmanager
def _opened(target: Target, gpus: str | None, chosen: Mapping[str, Benchmark]) -> Iterator[tuple[Engine, str, Bench]]:
    """Start the target's bench container, from an up-to-date image; it is stopped at the end, and its files stay."""
    from reprokit.bench.container import gpus_for, own_container
    from reprokit.bench.hardware import probe
    from reprokit.bench.inputs import place
    from reprokit.bench.run import Bench
    from reprokit.container.execute import execute
    from reprokit.container.lifecycle import stop
    from reprokit.engine import Engine

    engine = Engine.connect()
    requested = gpus_for(engine, target, gpus)
    if requested == "none" and all(benchmark.gpu for benchmark in chosen.values()):
        raise _nothing_runs(target, len(chosen))
    image = built(engine, target)
    container = own_container(engine, target, "bench", requested, say)
    try:
        run = partial(execute, engine, container)
        put = partial(place, target, fetch=partial(_fetch, target))
        yield engine, container, Bench(target, run, probe(run), image.inputs, image.image_id, put, image.state)
    finally:
        with suppress(ReprokitError):  # an error here would hide the first one
            stop(engine, container)


def _fetch(target: Target, file: PlainFile | RecordFile) -> Path:
    """A locked file of the store, downloaded if it is missing."""
    from reprokit.commands._shown import fetched
    from reprokit.supply.lock.file import complete, lock_path

    locked = file.locked_input()
    store = fetched([locked])
    if not file.sha256:
        complete(lock_path(target.path), store)
    return store.path(locked.stored(store))


def _nothing_runs(target: Target, count: int) -> EngineError:
    return EngineError(
        f"nothing could run: all {count} benchmarks of {target.label} need a GPU, and this machine has none",
        hint="run them on a node with a GPU; `reprokit check --gpu NAME` shows whether it fits",
    )


def _show(records: Sequence[Record], claims: Sequence[Claim], as_json: bool, more: Mapping[str, object]) -> None:
    if as_json:
        data = {"ok": not more.get("failed"), "records": [json.loads(r.to_json()) for r in records], **more}
        dump(data)
        return
    from rich.table import Table
    from rich.text import Text

    screen = console(width=200)
    for section in sections(records, claims):
        table = Table(box=None, pad_edge=False, title=Text(section.title, "bold"), title_justify="left")
        for column in section.columns:
            table.add_column(escaped(column), justify="right", no_wrap=True)
        for row in section.rows:
            table.add_row(*map(escaped, row))
        screen.print(table)
        for line in (section.conditions, *section.notes):
            screen.print(Text(line, "dim"))
        screen.print()
