"""`reprokit check`."""

from __future__ import annotations

import sys
import textwrap
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from reprokit import completion
from reprokit.untrusted.text import console, dump, echo

if TYPE_CHECKING:
    from reprokit.compat.facts import Facts
    from reprokit.compat.model import Finding, KnownGpu, Purpose, Stack

_COLOURS = {"error": "red", "warning": "yellow", "unknown": "cyan", "info": "blue"}


def check(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME[:VARIANT]", help="Recipes; all by default.", autocompletion=completion.targets),
    ] = None,
    pins: str | None = typer.Option(
        None, "--pins", metavar="NAME=VERSION,...", help="Check these pins instead of a recipe."
    ),
    gpu: Annotated[
        list[str] | None,
        typer.Option("--gpu", metavar="NAME", help="A GPU by name or compute capability; `none` for no GPU."),
    ] = None,
    driver: str = typer.Option("", "--driver", metavar="VERSION", help="The NVIDIA driver, such as 470.57.02."),
    purpose: str = typer.Option(
        "", "--for", metavar="PURPOSE", help="compile (the default), run (prebuilt binaries), ptx or import."
    ),
    json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Check pins against the facts, before anything is downloaded.

    A historic variant is checked only if its recipe is named, and counts only if named as NAME:VARIANT.
    """
    from reprokit.compat.evaluate import evaluate
    from reprokit.compat.facts import bundled

    facts = bundled()
    stacks = _stacks(facts, names or [], pins, gpu or [], driver, purpose)
    results = [CheckResult(label, counts, evaluate(facts, stack)) for label, counts, stack in stacks]
    if json:
        dump(as_json(facts, results))
    else:
        _print(facts, results)
    if not all(result.ok for result in results):
        raise typer.Exit(1)


class CheckResult(NamedTuple):
    """The findings on one stack. A stack that does not count, such as the authors' own, is only shown."""

    label: str
    counts: bool
    findings: list[Finding]

    @property
    def ok(self) -> bool:
        return not self.counts or all(f.severity != "error" for f in self.findings)


def as_json(facts: Facts, results: list[CheckResult]) -> dict[str, Any]:
    """`{"ok", "findings"}`; findings of recipes also name their `recipe`. Sources are citations."""
    found = [
        {
            **({"recipe": result.label} if result.label else {}),
            **({} if result.counts else {"historic": True}),
            "severity": f.severity,
            "subjects": list(f.subjects),
            "reason": f.reason,
            "nearest": list(f.nearest),
            "sources": [facts.cite(s) for s in f.sources],
        }
        for result in results
        for f in result.findings
    ]
    return {"ok": all(result.ok for result in results), "findings": found}


def _stacks(
    facts: Facts, names: list[str], pins: str | None, gpu: list[str], driver: str, purpose: str
) -> list[tuple[str, bool, Stack]]:
    """The stacks to check: label (empty without a recipe), whether it counts, stack. Raises UsageError."""
    from reprokit.compat.model import PURPOSES
    from reprokit.compat.pins import check_driver
    from reprokit.errors import UsageError

    chosen = next((p for p in PURPOSES if p == purpose), None)
    if purpose and chosen is None:
        raise UsageError(f"--for {purpose} is not a purpose", hint=f"write one of {', '.join(PURPOSES)}")
    gpus, no_gpu = _gpus(facts, gpu)
    version = check_driver(driver) if driver else None
    if pins is None:
        return _recipes(names, gpus, no_gpu, version, chosen)
    if names:
        raise UsageError("recipes and --pins exclude each other", hint="use two commands")

    from reprokit.compat.model import Stack as NewStack
    from reprokit.compat.pins import parse_pins

    needs: Literal["required", "optional"] = "required" if gpus else "optional"
    return [
        ("", True, NewStack(parse_pins(pins), chosen or "compile", gpus, None if no_gpu else version, needs_gpu=needs))
    ]


def _recipes(
    names: list[str], gpus: tuple[KnownGpu, ...], no_gpu: bool, driver: str | None, purpose: Purpose | None
) -> list[tuple[str, bool, Stack]]:
    from dataclasses import replace

    from reprokit.compat.model import KnownHost
    from reprokit.compat.stack import stack_of
    from reprokit.errors import UsageError
    from reprokit.host import disk, machine
    from reprokit.recipe.find import current_targets, recipe_names, targets

    host = KnownHost(machine.memory_bytes(), disk.free_bytes(disk.ENGINE_ROOT))
    stacks = []
    found = [t for name in names for t in targets(name)] if names else current_targets(recipe_names())
    for target in found:
        stack = stack_of(target.variant, gpus, driver, host, no_gpu)
        counts = not target.variant.historic or target.label in names
        stacks.append((target.label, counts, replace(stack, purpose=purpose) if purpose else stack))
    if not stacks:
        raise UsageError("no recipes found", hint="write one with `reprokit new NAME`, or check pins with --pins")
    return stacks


def _gpus(facts: Facts, names: list[str]) -> tuple[tuple[KnownGpu, ...], bool]:
    """The named GPUs, and whether they were excluded by `none`. Raises UsageError."""
    from reprokit.compat.gpu import parse_gpu
    from reprokit.errors import UsageError

    parsed = [parse_gpu(facts, name) for name in names]
    found = tuple(dict.fromkeys(g for g in parsed if g is not None))
    if found and None in parsed:
        raise UsageError("--gpu none excludes other GPUs")
    return found, bool(parsed) and not found


def _print(facts: Facts, results: list[CheckResult]) -> None:
    from rich.text import Text

    screen = console()
    times = " \u00d7 " if (sys.stdout.encoding or "").lower().startswith("utf") else " x "
    for label, counts, findings in results:
        for finding in findings:
            head = Text(f"{finding.severity:8}", f"bold {_COLOURS[finding.severity]}")
            screen.print(Text.assemble(head, f" {times.join(finding.subjects)}"), soft_wrap=True)
            _indented(finding.reason)
            if finding.nearest:
                _indented(f"nearest: {', or '.join(finding.nearest)}")
            for source in finding.sources if finding.severity != "info" else ():
                _indented(f"source: {facts.cite(source)}")
        echo(f"{label or 'stack'}: {_summary(findings)}{'' if counts else ' (historic: not counted)'}")


def _indented(text: str) -> None:
    for line in textwrap.wrap(
        text, 110, initial_indent=" " * 9, subsequent_indent=" " * 11, break_long_words=False, break_on_hyphens=False
    ):
        echo(line)


def _summary(findings: list[Finding]) -> str:
    counts = [(s, sum(f.severity == s for f in findings)) for s in ("error", "warning", "unknown")]
    plural = {"error": "errors", "warning": "warnings", "unknown": "unknown"}
    parts = [f"{n} {s if n == 1 else plural[s]}" for s, n in counts if n]
    return ", ".join(parts) or "ok"
