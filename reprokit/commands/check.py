"""`reprokit check`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from reprokit.commands import _options as options
from reprokit.commands._findings import as_json as finding_as_json
from reprokit.commands._findings import show, summary
from reprokit.errors import UsageError
from reprokit.untrusted.terminal import dump, echo, paged

if TYPE_CHECKING:
    from reprokit.compat.facts import Facts
    from reprokit.compat.model import Finding, ResolvedVersion, Stack
    from reprokit.compat.stack import RequestedMachine
    from reprokit.recipe.find import Target


def check(
    names: Annotated[list[str] | None, options.recipes("Else the recipes of ./recipes.")] = None,
    pins: options.Pins = None,
    gpu: options.Gpu = None,
    driver: options.Driver = "",
    purpose: options.Purpose = "",
    every: options.Every = False,
    sources: bool = options.flag("--sources", "Print the sources of each finding."),
    json: options.Json = False,
) -> None:
    """Check pins against the facts, before anything is downloaded.

    A historic variant is checked only if its recipe is named, and counts only if named as NAME:VARIANT.
    """
    from reprokit.compat.evaluate import evaluate
    from reprokit.compat.facts import bundled
    from reprokit.compat.stack import requested_machine

    facts = bundled()
    machine = requested_machine(facts, gpu or [], driver, purpose)
    if pins is not None and names:
        raise UsageError("recipes and --pins exclude each other", hint="use two commands")
    stacks = (
        [("", True, machine.stack_of_pins(pins), [])] if pins is not None else _recipes(names or [], every, machine)
    )
    results = [
        CheckResult(label, counts, [*of_recipe, *map(_about_this_host, evaluate(facts, stack))])
        for label, counts, stack, of_recipe in stacks
    ]
    if json:
        dump(as_json(facts, results))
    else:
        with paged():
            for (_, _, stack, of_recipe), result in zip(stacks, results, strict=True):
                suggest_solve = not of_recipe and result.errors and _needs_several_pins(facts, stack, result.findings)
                _print(facts, result, sources, suggest_solve)
    if not all(result.ok for result in results):
        raise typer.Exit(1)


class CheckResult(NamedTuple):
    """The findings on one stack. If it does not count, as for the authors' own stack, it is only shown."""

    label: str
    counts: bool
    findings: list[Finding]

    @property
    def errors(self) -> bool:
        return any(f.severity == "error" for f in self.findings)

    @property
    def ok(self) -> bool:
        return not (self.counts and self.errors)


def as_json(facts: Facts, results: list[CheckResult]) -> dict[str, Any]:
    """`{"ok", "findings"}`; findings of recipes also name their `recipe`."""
    findings = [
        {
            **({"recipe": result.label} if result.label else {}),
            **({} if result.counts else {"historic": True}),
            **finding_as_json(facts, f),
        }
        for result in results
        for f in result.findings
    ]
    return {"ok": all(result.ok for result in results), "findings": findings}


def _about_this_host(finding: Finding) -> Finding:
    """Make errors about this machine warnings: the recipe may be meant for another machine."""
    of_host = finding.severity == "error" and any(subject.startswith("host.") for subject in finding.subjects)
    return replace(finding, severity="warning") if of_host else finding


def _needs_several_pins(facts: Facts, stack: Stack, findings: list[Finding]) -> bool:
    """Whether no single pin ends all errors, but several do, according to `solve`, which considers only pins."""
    from reprokit.compat.evaluate import judge, one_pin_is_enough
    from reprokit.compat.solve import passing
    from reprokit.compat.view import View

    stack = replace(stack, host=None)  # errors about the machine are not the pins'
    if one_pin_is_enough(facts, stack, findings):
        return False
    pins = passing(facts, replace(stack, resolved={}))
    return pins is not None and not any(f.severity == "error" for _, f in judge(View(facts, replace(stack, pins=pins))))


def _read(target: Target) -> tuple[dict[str, ResolvedVersion], list[Finding]]:
    """The versions beside the pins, and the faults of the recipe and its lock.

    Faults are those that `render` refuses: blocks, their options and order, and what they install. Only the user's own
    blocks are rendered: templates of bundled blocks refuse nothing more.
    """
    from reprokit.compat.model import Finding
    from reprokit.image.facts import template_facts
    from reprokit.image.lock.fit import resolved_versions

    try:
        template_facts(target)
        if target.own_blocks:
            from reprokit.image.render import render

            render(target)
        return resolved_versions(target), []
    except UsageError as error:
        return {}, [Finding("error", "recipe", (error.where or str(target.path),), error.message, remedy=error.hint)]


def _recipes(names: list[str], every: bool, machine: RequestedMachine) -> list[tuple[str, bool, Stack, list[Finding]]]:
    """The stacks of recipes: label, whether it counts, stack, faults of the recipe itself. Raises UsageError."""
    from reprokit.compat.model import KnownHost
    from reprokit.host import disk, memory
    from reprokit.recipe.find import current_targets, default_names, split, targets

    host = KnownHost(memory.memory_bytes(), disk.free_bytes(disk.ENGINE_ROOT))
    named = {t.label for name in names if split(name)[1] for t in targets(name)}
    checked = [t for name in names for t in targets(name)] if names else current_targets(default_names(every))
    if not checked:
        raise UsageError("no recipes found", hint="write one with `reprokit new NAME`, or check pins with --pins")
    stacks = []
    for target in checked:
        resolved, faults = _read(target)
        counts = not target.variant.historic or target.label in named
        stacks.append((target.label, counts, machine.stack_of(target, host, resolved), faults))
    return stacks


def _print(facts: Facts, result: CheckResult, sources: bool, suggest_solve: bool) -> None:
    show(facts, result.findings, sources)
    if suggest_solve:
        what = result.label or "--pins ..."
        echo(f"no single pin ends all errors: `reprokit solve {what}`, with the same options, finds pins that do")
    echo(f"{result.label or 'stack'}: {summary(result.findings)}{'' if result.counts else ' (historic: not counted)'}")
