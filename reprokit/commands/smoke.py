"""`reprokit smoke`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reprokit import completion
from reprokit.commands import _options as options
from reprokit.commands._shown import built, sent
from reprokit.display import notify
from reprokit.errors import ReprokitError
from reprokit.host.disk import ENGINE_ROOT
from reprokit.recipe import find
from reprokit.recipe.find import Target
from reprokit.smoke import result
from reprokit.smoke.result import TrialResult, TrialStep, junit_report
from reprokit.untrusted.text import dump, echo

if TYPE_CHECKING:
    from reprokit.bench.hardware import Execute
    from reprokit.engine import Engine
    from reprokit.host.gpu import GpuDevice


def smoke(
    names: Annotated[list[str] | None, options.recipes("Else those of ./recipes that this host can run.")] = None,
    junit: Annotated[
        Path | None,
        typer.Option("--junit", metavar="FILE", autocompletion=completion.files, help="Also write JUnit XML there."),
    ] = None,
    every: options.Every = False,
    as_json: options.Json = False,
    on: options.On = None,
) -> None:
    """Check, build and try recipes, for CI.

    Prints one line a variant: pass, fail or skip, seconds, and the reason. What needs a GPU is skipped where there is
    none; a historic variant is tried only where it is named itself. Each runs in a fresh container, and one that fails
    stops no other. Exit code 3 where nothing could run at all. With --on they are tried on another machine, which
    needs Docker and the images, but no reprokit.
    """
    chosen = find.current_targets(names) if names else None
    others = [] if names else find.default_names(every)
    results: list[TrialResult] = []
    _write(junit, results)
    with options.engine_on(on) as engine:
        for found in _trials(engine, chosen, others):
            results.append(found)
            _write(junit, results)
            if not as_json:
                echo(found.line())
            for step in found.steps:
                if step.status == "fail" and step.output != step.reason:
                    notify(*(f"    {line}" for line in step.output.splitlines()[-20:]))
    if as_json:
        ok = all(r.status != "fail" for r in results)
        dump({"ok": ok, "results": [r.to_json() for r in results]})
    if code := result.exit_code(results):
        raise typer.Exit(code)


def _trials(engine: Engine, chosen: Sequence[Target] | None, names: Sequence[str]) -> Iterator[TrialResult]:
    """The result of each target; without a choice, of all variants of `names` that this host can run."""
    from reprokit.image.lock.fit import errors_of
    from reprokit.smoke.run import Trial

    trial = Trial(
        check=lambda target: errors_of(target, False),
        build=lambda target: sent(engine, target) if engine.host.name else built(engine, target),
        container=lambda target: fresh_container(engine, target),
        on_step=lambda target, name: notify(f"{target.label}: {name}"),
    )
    gpus = engine.host.gpus() if chosen is None else []
    for target in chosen if chosen is not None else _current(names):
        if isinstance(target, TrialResult):
            yield target
        elif chosen is None and (reason := _not_here(engine, target, gpus)):
            yield TrialResult(target.label, (TrialStep("host", "skip", reason=reason),))
        else:
            yield trial.run(target)


def _current(names: Sequence[str]) -> Iterator[Target | TrialResult]:
    """Every variant that is not historic; a recipe that cannot be read is a failure and stops no other."""
    for name in names:
        try:
            yield from find.current_targets([name])
        except ReprokitError as error:
            reason = f"{error.message} ({error.where})"
            yield TrialResult(name, (TrialStep("recipe", "fail", reason=reason, output=reason),), error.exit_code)


def _not_here(engine: Engine, target: Target, gpus: Sequence[GpuDevice]) -> str:
    """Why this host cannot run the target, or "". An image that is built already needs no more disk."""
    from reprokit.bench.container import gpus_for
    from reprokit.host.fit import in_words, recipe_findings
    from reprokit.image.labels import image_name

    has_gpu = gpus_for(engine, target, None) != "none"
    free_disk = None
    if engine.image(image_name(target)) is None:
        if engine.host.name:
            return f"its image is missing on {engine.host.name}"
        free_disk = engine.host.disk_free_bytes(engine.info().get("DockerRootDir") or ENGINE_ROOT)
    found = recipe_findings(target.variant, has_gpu, gpus, engine.host.memory_bytes(), free_disk)
    return next((in_words(finding) for finding in found if finding.severity == "error"), "")


@contextmanager
def fresh_container(engine: Engine, target: Target) -> Iterator[Execute]:
    from reprokit.bench.container import container_of_run, gpus_for
    from reprokit.container.execute import execute
    from reprokit.container.settings import RunOptions

    options = RunOptions(gpus=gpus_for(engine, target, None))
    with container_of_run(engine, target, "smoke", options) as name:
        yield partial(execute, engine, name)


def _write(junit: Path | None, results: Sequence[TrialResult]) -> None:
    """Write the report so far, so that one exists however the run ends."""
    if junit is None:
        return
    from reprokit.host.disk import unwritable

    try:
        junit.parent.mkdir(parents=True, exist_ok=True)
        junit.write_bytes(junit_report(results))
    except OSError as error:
        raise unwritable(error, "the report", junit) from None
