"""`reprokit sweep`."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from reprokit import completion, paths
from reprokit.commands import _options as options
from reprokit.display import ProgressDisplay, notify
from reprokit.errors import WorkFailed
from reprokit.filelocks import file_lock
from reprokit.formatting import clock, counted
from reprokit.host.workspace import mark
from reprokit.results import lines
from reprokit.sweep import file as sweep_file
from reprokit.sweep import plan as planning
from reprokit.tables import table
from reprokit.untrusted.terminal import dump, echo

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.text import Text

    from reprokit.config.nodes import Node
    from reprokit.recipe.find import Target
    from reprokit.results.record import Record
    from reprokit.sweep.plan import Job, SweepPlan
    from reprokit.sweep.run import Runner, SweepResult


def sweep(
    file: Annotated[
        Path, typer.Argument(metavar="FILE.yaml", help="What to measure.", autocompletion=completion.files)
    ],
    runner: Annotated[
        Literal["slurm"] | None,
        typer.Option(
            metavar="slurm",
            help="Give the jobs to a cluster instead of this machine or the file's nodes.",
            autocompletion=completion.choices("slurm"),
        ),
    ] = None,
    dry_run: options.DryRun = False,
    as_json: options.Json = False,
) -> None:
    """Run the benchmarks of a file, for all its parameters, here, on nodes or on a cluster.

    Each combination is a job of its own, in an order that is shuffled. A job that fails is tried again, elsewhere if
    possible. Records are appended to results/NAME.jsonl below the current folder as they come, so the same command
    continues an interrupted sweep. `reprokit help sweep` describes the file.
    """
    requested = sweep_file.load(file)
    jobs = planning.jobs_of(requested, str(file), _image_of(runner))
    nodes = _nodes(requested.nodes, str(file)) if not runner else []
    with ExitStack() as locks:
        # Two processes with the same jobs would measure them twice.
        for name in [] if dry_run else sorted({job.recipe for job in jobs}):
            lines.check_writable(Path(_results(name)))
            lock = paths.state() / f"sweep-{name}-{mark(str(Path.cwd()))}.lock"
            waiting = f"another sweep of {name} is running in this folder: waiting for it"
            locks.enter_context(file_lock(lock, waiting))
        plan = planning.plan(jobs, _earlier(jobs))
        shown = _plan_json(plan, nodes, runner)
        if not as_json:
            show_plan(plan, nodes, runner)
        if dry_run:
            if as_json:
                dump({"plan": shown})
            return
        result = _run(plan, runner, nodes)
    if as_json:
        failed = [failure.to_json() for failure in result.failed]
        dump({"plan": shown, "ok": not failed, "recorded": result.recorded, "failed": failed})
    elif plan.jobs:
        echo(f"{result.recorded} of {counted(len(plan.jobs), 'job')} recorded, {len(result.failed)} failed")
    if result.failed:
        from reprokit.explain.last import explain_by

        first = result.failed[0]
        message = f"{len(result.failed)} of {counted(len(plan.jobs), 'job')} failed, the first: {first.job.title}"
        hint = "the same command tries only these again"
        error = WorkFailed(f"{message}: {first.reasons[-1]}", str(file), hint)
        if first.log:
            explain_by(error, first.log)
            error.hint = f"`reprokit explain --last` reads the log of the container runtime; {hint}"
        raise error


def _run(plan: SweepPlan, kind: str | None, nodes: Sequence[Node]) -> SweepResult:
    from reprokit.sweep.run import SweepResult, run

    if not plan.jobs:
        return SweepResult()
    with SweepDisplay(len(plan.jobs)) as shown:
        try:
            return run(plan.jobs, _runner(kind, nodes), _record, shown.update)
        except KeyboardInterrupt:
            notify(f"interrupted: {counted(shown.result.recorded, 'job')} recorded; the same command continues")
            raise


def _runner(kind: str | None, nodes: Sequence[Node]) -> Runner:
    from reprokit.sweep import machines, slurm_array

    if kind == "slurm":
        return slurm_array.SlurmRunner()
    return machines.on_nodes(nodes) if nodes else machines.this_machine()


def _nodes(names: Sequence[str], where: str) -> list[Node]:
    from reprokit.sweep.machines import nodes_of

    return nodes_of(names, where) if names else []


def _image_of(runner: str | None) -> Callable[[Target], str]:
    """The digest of the image that the cluster runs for a target, "" if `reprokit bench` chooses it."""
    from reprokit.sweep.slurm_array import image_digest

    return image_digest if runner == "slurm" else lambda target: ""


def _results(recipe: str) -> str:
    return f"{lines.FOLDER}/{recipe}.jsonl"


def _record(recipe: str, records: Sequence[Record]) -> None:
    lines.append(Path.cwd(), _results(recipe), records)


def _earlier(jobs: Sequence[Job]) -> list[Record]:
    recipes = dict.fromkeys(job.recipe for job in jobs)
    return [record for name in recipes if Path(_results(name)).is_file() for record in lines.read(Path(_results(name)))]


def _seconds(plan: SweepPlan, nodes: Sequence[Node], runner: str | None) -> float | None:
    """The seconds that the sweep takes, None if unknown. The number of machines of a cluster is unknown."""
    return None if plan.seconds is None else plan.seconds / (1 if runner else len(nodes) or 1)


def _plan_json(plan: SweepPlan, nodes: Sequence[Node], runner: str | None) -> dict[str, Any]:
    return {
        "jobs": [{"id": job.id, "job": job.title, "gpu": job.gpu} for job in plan.jobs],
        "done": plan.done,
        "runner": runner or ("ssh" if nodes else "here"),
        "nodes": [node.name for node in nodes],
        "machine_seconds": plan.seconds,
        "seconds": None if runner else _seconds(plan, nodes, runner),
        "never_measured": plan.unknown,
    }


def show_plan(plan: SweepPlan, nodes: Sequence[Node], runner: str | None) -> None:
    from collections import Counter

    if not plan.jobs:
        echo(f"nothing left to measure: {counted(plan.done, 'job')} recorded before")
        return
    counts = Counter((job.label, job.benchmark) for job in plan.jobs)
    rows = [(*key, str(count)) for key, count in sorted(counts.items())]
    table(("recipe", "benchmark", "jobs"), rows, words=(0, 1))
    where = f"on {', '.join(node.name for node in nodes)}" if nodes else "on this machine"
    where = "as Slurm job arrays" if runner else where
    seconds = _seconds(plan, nodes, runner)
    took = "unknown, as none has been measured" if seconds is None else f"about {clock(seconds)} of measuring"
    if seconds is not None and runner:
        took += " on one machine"
    if seconds is not None and plan.unknown:
        took += f" ({plan.unknown} of them never measured)"
    echo(f"{counted(len(plan.jobs), 'job')} {where}, {plan.done} recorded before; time: {took}")


class SweepDisplay(ProgressDisplay):
    """How many jobs are recorded, and how many failed."""

    def __init__(self, count: int, every_s: float = 5.0) -> None:
        super().__init__(sys.stderr, every_s)
        from reprokit.sweep.run import SweepResult

        self._count = count
        self.result = SweepResult()

    def update(self, result: SweepResult) -> None:
        self.result = result
        self.often("sweep", self._line())

    def _line(self) -> str:
        return f"{self.result.recorded} of {counted(self._count, 'job')} recorded, {len(self.result.failed)} failed"

    def render(self) -> Text:
        import time

        from rich.text import Text

        return Text(f"{self._line()}  {clock(time.monotonic() - self._began)}", no_wrap=True, overflow="ellipsis")
