"""Pins that pass `check`: what a recipe states, changed as little as `solve` can."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from packaging.requirements import Requirement

from reprokit.compat.evaluate import evaluate
from reprokit.compat.facts import Facts
from reprokit.compat.pins import of_project
from reprokit.compat.solve.search import ChangedPin, solve
from reprokit.compat.stack import stack_of, stated_wheels
from reprokit.importing.edits import changed
from reprokit.importing.permitted import RecipeChange, release_of
from reprokit.recipe.load import load_text
from reprokit.recipe.model import Variant

# What only another import can change: versions of everything else were resolved for them.
_FIXED = ("base", "distro", "python")


@dataclass(frozen=True)
class Fit:
    """`versions` gives a requirement's changes to a variant, or why no versions fit."""

    facts: Facts
    versions: Callable[[Variant, Requirement], list[RecipeChange] | str]

    def fitted(self, text: str, name: str, variant_name: str, kept: Sequence[str] = ()) -> tuple[str, list[str]]:
        """The recipe with pins that pass `check`, and a line for each change, or for why there is none.

        `kept` are paths of pins that were just set.
        """
        lines = []
        variant = load_text(text, f"recipes/{name}.yaml", name).variants[variant_name]
        stack = stack_of(variant, resolved=stated_wheels(_texts(variant.wheels)))
        errors = [finding for finding in evaluate(self.facts, stack) if finding.severity == "error"]
        if not errors:
            return text, []
        # The wheels that clash may change as pins do.
        named = {subject.partition("=")[0] for finding in errors for subject in finding.subjects}
        wheels = {name: each.version for name, each in stack.resolved.items() if name in named}
        stack = replace(stack, pins={**wheels, **stack.pins})
        fixed = {path.rpartition("/")[2] for path in kept if "/pins/" in path} | set(_FIXED)
        solution = solve(self.facts, stack, fixed & set(stack.pins))
        if solution.pins is None:
            return text, [f"these pins cannot go together: {', '.join(solution.core)}"]
        for change in solution.changes:
            found = self._changes(variant, change)
            if isinstance(found, str):
                lines.append(f"`check` asks for {change.pin} {change.new}: {found}")
                continue
            why = f"not {change.old}: {change.because.reason}"
            text = changed(text, variant_name, [c.as_json() for c in found], why)
            variant = load_text(text, f"recipes/{name}.yaml", name).variants[variant_name]
            lines.append(f"{change.pin}: {change.old} -> {change.new}, because {change.because.reason}")
        return text, lines

    def _changes(self, variant: Variant, change: ChangedPin) -> list[RecipeChange] | str:
        entries = (entry.partition("==")[0] for entry in _texts(variant.wheels) if "==" in entry)
        project = next((name for name in entries if of_project(name) == change.pin), "")
        if not project and change.pin != "torch":
            return [RecipeChange("replace", f"/variants/*/pins/{change.pin}", change.new)]
        return self.versions(variant, Requirement(f"{project or 'torch'}=={release_of(change.new)}"))


def _texts(wheels: Collection[object]) -> list[str]:
    return [entry for entry in wheels if isinstance(entry, str)]
