"""`reprokit check`."""

from __future__ import annotations

import json as json_format
import os
import sys
import textwrap
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from reprokit import completion

if TYPE_CHECKING:
    from reprokit.compat.facts import Facts
    from reprokit.compat.model import Finding, Gpu, Purpose, Stack

_COLOURS = {"error": "red", "warning": "yellow", "unknown": "cyan", "info": "blue"}


def check(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME[:VARIANT]", help="Recipes; all where none is named.", autocompletion=completion.targets
        ),
    ] = None,
    pins: str | None = typer.Option(None, "--pins", metavar="NAME=VERSION,...", help="A stack without a recipe."),
    gpu: Annotated[
        list[str] | None,
        typer.Option("--gpu", metavar="NAME", help="A GPU by name or compute capability; `none` leaves GPUs out."),
    ] = None,
    driver: str = typer.Option("", "--driver", metavar="VERSION", help="The NVIDIA driver, such as 470.57.02."),
    purpose: str = typer.Option(
        "", "--for", metavar="PURPOSE", help="compile (the default), run (prebuilt binaries), ptx or import."
    ),
    json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Check pins against the facts, before anything is downloaded."""
    from reprokit.compat.evaluate import evaluate
    from reprokit.compat.facts import bundled

    facts = bundled()
    stacks = _stacks(facts, names or [], pins, gpu or [], driver, purpose)
    results = [(label, evaluate(facts, stack)) for label, stack in stacks]
    if json:
        typer.echo(json_format.dumps(as_json(facts, results), indent=2))
    else:
        _print(facts, results)
    if any(f.severity == "error" for _, findings in results for f in findings):
        raise typer.Exit(1)


def as_json(facts: Facts, results: list[tuple[str, list[Finding]]]) -> dict[str, Any]:
    """`{"ok", "findings"}`; findings of recipes also name their `recipe`. Sources are citations."""
    found = [
        {
            **({"recipe": label} if label else {}),
            "severity": f.severity,
            "subjects": list(f.subjects),
            "reason": f.reason,
            "nearest": list(f.nearest),
            "sources": [facts.cite(s) for s in f.sources],
        }
        for label, findings in results
        for f in findings
    ]
    return {"ok": all(f["severity"] != "error" for f in found), "findings": found}


def _stacks(
    facts: Facts, names: list[str], pins: str | None, gpu: list[str], driver: str, purpose: str
) -> list[tuple[str, Stack]]:
    """What is to be checked, by label; a stack without a recipe has none. Raises UsageError."""
    from reprokit.compat.model import PURPOSES
    from reprokit.compat.pins import check_driver
    from reprokit.errors import UsageError

    wanted = next((p for p in PURPOSES if p == purpose), None)
    if purpose and wanted is None:
        raise UsageError(f"--for {purpose} is not a purpose", hint=f"write one of {', '.join(PURPOSES)}")
    gpus, no_gpu = _gpus(facts, gpu)
    version = check_driver(driver) if driver else None
    if pins is None:
        return _recipes(names, gpus, no_gpu, version, wanted)
    if names:
        raise UsageError("recipes and --pins exclude each other", hint="check one after the other")

    from reprokit.compat.model import Stack as NewStack
    from reprokit.compat.pins import parse_pins

    needs: Literal["required", "optional"] = "required" if gpus else "optional"
    return [("", NewStack(parse_pins(pins), wanted or "compile", gpus, None if no_gpu else version, needs_gpu=needs))]


def _recipes(
    names: list[str], gpus: tuple[Gpu, ...], no_gpu: bool, driver: str | None, purpose: Purpose | None
) -> list[tuple[str, Stack]]:
    from dataclasses import replace

    from reprokit.compat.model import Host
    from reprokit.compat.stack import stack_of
    from reprokit.errors import UsageError
    from reprokit.host import probe
    from reprokit.recipe.find import recipe_names, targets

    host = Host(probe.memory_bytes(), probe.disk_free_bytes())
    stacks = []
    for target in [t for name in names or recipe_names() for t in targets(name)]:
        stack = stack_of(target.variant, gpus, driver, host, no_gpu)
        stacks.append((target.label, replace(stack, purpose=purpose) if purpose else stack))
    if not stacks:
        raise UsageError("there are no recipes here", hint="name a stack with --pins, or see `reprokit new`")
    return stacks


def _gpus(facts: Facts, names: list[str]) -> tuple[tuple[Gpu, ...], bool]:
    """The GPUs named, and whether they were ruled out. Raises UsageError."""
    from reprokit.compat.gpu import parse_gpu
    from reprokit.errors import UsageError

    parsed = [parse_gpu(facts, name) for name in names]
    found = tuple(dict.fromkeys(g for g in parsed if g is not None))
    if found and None in parsed:
        raise UsageError("--gpu none excludes other GPUs")
    return found, bool(parsed) and not found


def _print(facts: Facts, results: list[tuple[str, list[Finding]]]) -> None:
    colour = False if os.environ.get("NO_COLOR") else None
    times = " \u00d7 " if (sys.stdout.encoding or "").lower().startswith("utf") else " x "
    for label, findings in results:
        for finding in findings:
            head = typer.style(f"{finding.severity:8}", fg=_COLOURS[finding.severity], bold=True)
            typer.echo(f"{head} {times.join(finding.subjects)}", color=colour)
            typer.echo(_indented(finding.reason))
            if finding.nearest:
                typer.echo(_indented(f"nearest: {', or '.join(finding.nearest)}"))
            for source in finding.sources if finding.severity != "info" else ():
                typer.echo(_indented(f"source: {facts.cite(source)}"))
        typer.echo(f"{label or 'stack'}: {_summary(findings)}")


def _indented(text: str) -> str:
    return textwrap.fill(
        text, 110, initial_indent=" " * 9, subsequent_indent=" " * 11, break_long_words=False, break_on_hyphens=False
    )


def _summary(findings: list[Finding]) -> str:
    counts = [(s, sum(f.severity == s for f in findings)) for s in ("error", "warning", "unknown")]
    plural = {"error": "errors", "warning": "warnings", "unknown": "unknown"}
    said = [f"{n} {s if n == 1 else plural[s]}" for s, n in counts if n]
    return ", ".join(said) or "ok"
