"""`reprokit smoke`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from reprokit.commands import _options as options
from reprokit.display import notify
from reprokit.recipe import find
from reprokit.smoke import result
from reprokit.smoke.result import TrialResult, junit_report
from reprokit.smoke.run import trials
from reprokit.untrusted.terminal import dump, echo


def smoke(
    names: Annotated[list[str] | None, options.recipes("Else those of ./recipes that this host can run.")] = None,
    junit: Annotated[Path | None, options.file("Also write JUnit XML there.", "--junit")] = None,
    every: options.Every = False,
    as_json: options.Json = False,
    on: options.On = None,
) -> None:
    """Check, build and try recipes, for CI.

    Prints one line a variant: pass, fail or skip, seconds, and the reason. What needs a GPU is skipped if there is
    none; a historic variant is tried only if it is named itself. Each runs in a fresh container, and one that fails
    stops no other. Exit code 3 if nothing could run at all. With --on they are tried on another machine, which
    needs Docker and the images, but no reprokit.
    """
    chosen = find.current_targets(names) if names else None
    others = [] if names else find.default_names(every)
    results: list[TrialResult] = []
    _write(junit, results)
    with options.engine_on(on) as engine:
        for trial in trials(engine, chosen, others):
            results.append(trial)
            _write(junit, results)
            if not as_json:
                echo(trial.line())
            for step in trial.steps:
                if step.status == "fail" and step.output != step.reason:
                    notify(*(f"    {line}" for line in step.output.splitlines()[-20:]))
    if as_json:
        ok = all(r.status != "fail" for r in results)
        dump({"ok": ok, "results": [r.to_json() for r in results]})
    if code := result.exit_code(results):
        raise typer.Exit(code)


def _write(junit: Path | None, results: Sequence[TrialResult]) -> None:
    """Write the report so far, so that it survives any end of the run."""
    if junit is None:
        return
    from reprokit.host.disk import unwritable

    try:
        junit.parent.mkdir(parents=True, exist_ok=True)
        junit.write_bytes(junit_report(results))
    except OSError as error:
        raise unwritable(error, "the report", junit) from None
