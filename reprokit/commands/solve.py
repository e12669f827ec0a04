"""`reprokit solve`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reprokit.commands import _options as options
from reprokit.display import notify
from reprokit.formatting import counted
from reprokit.untrusted.terminal import dump, echo

if TYPE_CHECKING:
    from reprokit.compat.model import Stack
    from reprokit.compat.solve import Solution


def solve(
    name: Annotated[str | None, options.recipes("A recipe.", "NAME[:VARIANT]")] = None,
    pins: options.Pins = None,
    gpu: options.Gpu = None,
    driver: options.Driver = "",
    purpose: options.Purpose = "",
    keep: str = typer.Option("", "--keep", metavar="PIN,...", help="Pins that stay as they are."),
    change: str = typer.Option("", "--change", metavar="PIN,...", help="The only pins that may change."),
    write: str = typer.Option("", "--write", metavar="VARIANT", help="Add the answer to the recipe as a variant."),
    json: options.Json = False,
) -> None:
    """Find the pins that pass `check` and differ least from those of a recipe."""
    from reprokit.commands._findings import summary
    from reprokit.compat.evaluate import evaluate
    from reprokit.compat.facts import bundled
    from reprokit.compat.solve import solve as solved
    from reprokit.compat.stack import requested_machine
    from reprokit.errors import UsageError
    from reprokit.recipe import find

    facts = bundled()
    machine = requested_machine(facts, gpu or [], driver, purpose)
    if (name is None) == (pins is None):
        raise UsageError("give a recipe or --pins", hint="write `reprokit solve NAME`, or --pins cuda=11.8,gcc=12")
    if write and name is None:
        raise UsageError("--write needs a recipe: pins alone have no variants", "--write")
    target = find.target(name) if name is not None else None
    stack = machine.stack_of(target) if target else machine.stack_of_pins(pins or "")
    solution = solved(facts, stack, _fixed(stack, keep, change))
    if write and target and solution.changes:
        from reprokit.host.disk import unwritable
        from reprokit.recipe.variants import add_variant

        try:
            add_variant(target, write, "Pins that `reprokit solve` found", {c.pin: c.new for c in solution.changes})
        except OSError as error:
            raise unwritable(error, "the recipe", target.path) from None
    if json:
        dump(as_json(solution))
    else:
        _print(solution)
        if solution.pins is not None:
            findings = evaluate(facts, replace(stack, pins=solution.pins))
            count = len(solution.changes)
            changed = f"{counted(count, 'pin')} changed" if count else "nothing to change"
            echo(f"{changed}; `reprokit check` of them: {summary(findings)}")
        if write and target and solution.changes:
            echo(f"wrote the variant {write} to {target.path}; next: reprokit check {target.recipe.name}:{write}")
    if write and target and not solution.changes:
        why = f"{target.label} fits as it is" if solution.pins is not None else "no pins fit"
        notify(f"the variant {write} was not written: {why}")
    if solution.pins is None:
        raise typer.Exit(1)


def as_json(solution: Solution) -> dict[str, Any]:
    """`pins` is empty if nothing fits, `core` if something does."""
    changed = [{"pin": c.pin, "from": c.old, "to": c.new, "because": c.because.reason} for c in solution.changes]
    return {
        "ok": solution.pins is not None,
        "pins": solution.pins or {},
        "changed": changed,
        "core": list(solution.core),
    }


def _fixed(stack: Stack, keep: str, change: str) -> set[str]:
    """The pins that stay. Raises UsageError for a name that is no pin of the stack."""
    kept, changed = _names(stack, keep, "--keep"), _names(stack, change, "--change")
    return kept | (set(stack.pins) - changed if changed else set())


def _names(stack: Stack, text: str, option: str) -> set[str]:
    from reprokit.errors import UsageError
    from reprokit.recipe.spelling import nearest

    names = {name.strip().replace("-", "_") for name in text.split(",") if name.strip()}
    for name in sorted(names - set(stack.pins)):
        pins = ", ".join(stack.pins)
        raise UsageError(f"{name!r} is not a pin of this stack{nearest(name, stack.pins)}", option, f"pins are {pins}")
    return names


def _print(solution: Solution) -> None:
    if solution.pins is None:
        echo(f"these cannot go together: {', '.join(solution.core)}")
        for reason in solution.reasons:
            echo(f"  {reason.reason}")
        return
    width = max(len(name) for name in solution.pins)
    changes = {c.pin: c for c in solution.changes}
    for name, value in solution.pins.items():
        changed = changes.get(name)
        echo(f"{name:{width}}  {f'{changed.old} -> {changed.new}' if changed else value}")
        if changed:
            echo(f"{'':{width}}  because {changed.because.reason}")
