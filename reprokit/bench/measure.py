"""Measure benchmarks of a recipe in a container of their own, and append the records to a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

from reprokit.bench import extension
from reprokit.bench.checkout import checkout_of
from reprokit.bench.container import bench_name, gpus_for, hiding, machine_lock, marks, own_container
from reprokit.bench.hardware import probe
from reprokit.bench.inputs import place
from reprokit.bench.parameters import check_names
from reprokit.bench.run import Bench, Rounds, assignments, benchmarks, with_parameters
from reprokit.container.execute import execute
from reprokit.container.launch import usable_image
from reprokit.container.lifecycle import stop
from reprokit.display import notify, status
from reprokit.engine import Engine
from reprokit.errors import Absent, EngineError, ReprokitError, WorkFailed
from reprokit.formatting import counted
from reprokit.host import workspace
from reprokit.image import trust
from reprokit.image.build import BuildResult
from reprokit.image.labels import ImageLabels, image_name
from reprokit.image.lock.read import StaleImage, freshness, stale_image
from reprokit.image.lock.supplies import fetched
from reprokit.nodes.remote import engine_of
from reprokit.oci.canonical import canonical_digest_of
from reprokit.recipe import find
from reprokit.recipe.find import Target
from reprokit.recipe.model import Benchmark, Input
from reprokit.results import lines
from reprokit.results.record import BenchOrigin, Checkout, Record
from reprokit.supply.lock.file import complete, lock_path
from reprokit.supply.lock.model import PlainFile, RecordFile

_SHOWN_LINES, _SHOWN_CHARACTERS = 20, 20_000
_NO_GPU = "it needs a GPU, and the container has none"


def bench(
    target: Target,
    names: Sequence[str] = (),
    *,
    file: Path,
    on: str | None = None,
    with_extension: bool = False,
    gpus: str | None = None,
    rounds: Rounds = Rounds(),  # noqa: B008 - frozen
    fixed: Mapping[str, Sequence[Any]] = {},
    variables: Mapping[str, str] = {},
    stale: bool = False,
) -> BenchOutcome:
    """Measure these benchmarks of a recipe, or all, here or `on` a node, and append the records to `file`.

    `with_extension` measures the bundled attention extension in the recipe's container. `fixed` are parameters instead
    of the recipe's matrix, `variables` those of the commands; `stale` accepts an image whose recipe or lock has
    changed. A benchmark that fails does not stop the others: see `BenchOutcome.failed`. Raises UsageError, WorkFailed,
    EngineError if nothing could run.
    """
    requested = _requested(target, names, with_extension)
    check_names(target.label, requested.values(), fixed, str(target.path))
    chosen = {title: with_parameters(benchmark, fixed) for title, benchmark in requested.items()}
    jobs = [(title, b, combination) for title, b in chosen.items() for combination in b.combinations()]
    outcome = BenchOutcome(rounds, file, len(jobs), chosen)
    lines.check_writable(file, "--records FILE")
    with (
        engine_of(on) if on else nullcontext(Engine.connect()) as engine,
        machine_lock(gpus, engine.host),
        _opened(engine, target, gpus, chosen, stale, variables) as (container, session),
    ):

        @cache
        def sent(packages: tuple[str, ...]) -> str:
            files = {path: text for name in packages for path, text in extension.sources(name).items()}
            return extension.send(engine, container, session.execute, files) if packages else ""

        for title, benchmark, combination in jobs:
            packages = (extension.RECIPE,) if with_extension else tuple(benchmark.bundled)
            outcome.run(session, title, benchmark, sent(packages), combination)
    if not (outcome.records or outcome.failed):
        raise _nothing_runs(target, len(chosen))
    return outcome


def _requested(target: Target, names: Sequence[str], with_extension: bool) -> Mapping[str, Benchmark]:
    if not with_extension:
        return benchmarks(target, names)
    bundled = find.target(extension.RECIPE)
    return {f"extension.{name}": b for name, b in benchmarks(bundled, names).items()}


def _earlier(file: Path) -> list[Record]:
    """The last records of `file`; none if it is damaged, which appending and showing report."""
    try:
        return lines.latest(file)
    except ReprokitError:
        return []


class BenchOutcome:
    """The results of several benchmarks; one that fails, or cannot run, does not stop the others."""

    def __init__(self, rounds: Rounds, file: Path, count: int = 1, benchmarks: Mapping[str, Benchmark] = {}) -> None:
        self.rounds = rounds
        self.file = file
        self.count = count
        self.benchmarks = benchmarks
        self.begun = 0
        self.earlier = _earlier(file)
        self.records: list[Record] = []
        self.recorded = False
        self.skipped: dict[str, str] = {}
        self.failed: dict[str, ReprokitError] = {}

    def run(
        self, session: Bench, name: str, benchmark: Benchmark, folder: str, combination: Mapping[str, Any] = {}
    ) -> None:
        title = " ".join([name, *assignments(combination)])
        self.begun += 1
        if benchmark.gpu and not session.hardware.has_gpu:
            self.skipped[title] = _NO_GPU
            notify(f"skipped {title}: {_NO_GPU}")
            return
        tail = ""

        def keep(_stream: str, text: str) -> None:
            nonlocal tail
            tail = (tail + text)[-_SHOWN_CHARACTERS:]

        try:
            place = f"[{self.begun}/{self.count}] {session.target.label} {title}"
            expected = session.expected_s(name, benchmark, self.rounds, combination, self.earlier)
            with status(f"{place}: {benchmark.command}", expected):
                records = session.measure(name, benchmark, folder, keep, self.rounds, combination)
            if checked := records[0].checked:
                notify(f"{title}: compared {counted(checked, 'result')} with a reference: all correct")
            notify(*(f"warning: {title}: {text}" for text in dict.fromkeys(w for r in records for w in r.warnings)))
            self.records += records  # shown even if the disk is full
            named = (self.file.parent, self.file.name) if self.file.is_absolute() else (Path.cwd(), str(self.file))
            lines.append(*named, records)
            self.recorded = True
        except ReprokitError as error:
            notify(*(f"  {line}" for line in tail.splitlines()[-_SHOWN_LINES:]))
            notify(f"{title} failed: {error.message}")
            self.failed[title] = error

    def as_json(self) -> dict[str, object]:
        return {
            "left_out": [{"benchmark": n, "reason": reason} for n, reason in self.skipped.items()],
            "failed": [{"benchmark": n, "reason": error.message} for n, error in self.failed.items()],
        }

    def raise_failure(self) -> None:
        if not self.failed:
            return
        # Failures come before benchmarks that could not run.
        first = min(self.failed.values(), key=lambda e: (not isinstance(e, WorkFailed), isinstance(e, Absent)))
        if len(self.failed) > 1:
            first.message = "; ".join(f"{title}: {error.message}" for title, error in self.failed.items())
        raise first


@contextmanager
def _opened(
    engine: Engine,
    target: Target,
    gpus: str | None,
    chosen: Mapping[str, Benchmark],
    stale: bool,
    variables: Mapping[str, str],
) -> Iterator[tuple[str, Bench]]:
    """Start the target's bench container; it is stopped at the end, and its files stay.

    Its image is up to date, unless `stale` allows another one. Its commands have these `variables`.
    """
    requested = gpus_for(engine, target, gpus)
    if requested == "none" and all(benchmark.gpu for benchmark in chosen.values()):
        raise _nothing_runs(target, len(chosen))
    image, is_stale = _image(engine, target, stale)
    container = own_container(engine, target, bench_name(requested), requested)
    try:
        run = hiding(partial(execute, engine, container, env=variables), variables.values())
        put = partial(_absent, engine) if engine.host.name else partial(place, target, fetch=partial(_fetch, target))
        # A node's workspace is a copy, which may differ from this checkout.
        folder = workspace.locate(target.workspace, target.path)
        checkout = Checkout if engine.host.name else partial(checkout_of, folder)
        built = engine.image(image.image_id)
        origin = BenchOrigin(
            input_hash=image.inputs,
            image_digest=image.image_id,
            image_canonical=canonical_digest_of(built),
            image_state=image.state,
            image_stale=is_stale,
            image_verified=trust.verified(image.image_id),
            lock_hash=ImageLabels.read(built.labels if built else {}).lock,
            **vars(checkout()),
            node=engine.host.name,
            env_file=marks(variables),
        )
        yield container, Bench(target, run, probe(run), origin, put, checkout)
    finally:
        with suppress(ReprokitError):  # must not hide the first error
            stop(engine, container)


def _image(engine: Engine, target: Target, allowed: bool) -> tuple[BuildResult, bool | None]:
    """The target's image, and whether it is stale or drifted from its lock, None if unknown.

    Raises WorkFailed if it is or may be stale, and that is not allowed.
    """
    name = image_name(target)
    present = engine.image(name)
    stale = stale_image(target, present.labels) if present else None
    if present is None or stale is None:
        image = usable_image(engine, target)
        return image, freshness(target, _labels(engine, image.image_id)) == "drifted"
    if not allowed:
        raise _refused(stale)
    if stale.unknown:
        notify(stale.problem)
    if notice := trust.notice(present.id, target.label):
        notify(notice)
    inputs, state = ImageLabels.read(present.labels).inputs, trust.state(present.id)
    return BuildResult(name, present.id, inputs, False, 0.0, state=state), None if stale.unknown else True


def _labels(engine: Engine, image_id: str) -> Mapping[str, str]:
    image = engine.image(image_id)
    return image.labels if image else {}


def _refused(stale: StaleImage) -> WorkFailed:
    return WorkFailed(stale.problem, hint=f"{stale.remedy}; `reprokit bench --stale ...` measures it as it is")


def _absent(engine: Engine, file: Input) -> None:
    """Raises Absent: this machine places data, and cannot do so in a node's workspace."""
    raise Absent(
        f"the data {file.data} cannot be put into the workspace of a node",
        engine.host.name,
        f"copy it to {file.path} there: `reprokit run --on {engine.host.name} ...` names the workspace",
    )


def _fetch(target: Target, file: PlainFile | RecordFile) -> Path:
    """A locked file of the store, downloaded if it is missing."""
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
