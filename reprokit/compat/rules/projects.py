"""Source trees that a recipe builds."""

from __future__ import annotations

from collections.abc import Iterator

from reprokit.compat.verdict import Clash, warning
from reprokit.compat.view import View


def submodules(view: View) -> Iterator[Clash]:
    """A tree that needs its submodules and is taken without them."""
    for project in view.stack.bare_projects:
        facts = view.facts["projects"]["submodules"].get(project)
        if facts:
            needs = ", ".join(facts["needs"])
            yield (
                (f"source={project}",),
                warning(
                    f"{project} builds only with its submodules ({needs}); without: {facts['symptom']}", facts["source"]
                ),
            )
