"""Source trees that a recipe builds."""

from __future__ import annotations

from collections.abc import Iterator

from reprokit.compat.verdict import Clash, error, shared, warning
from reprokit.compat.version import key
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


def gcc(view: View) -> Iterator[Clash]:
    """A tree that compilers of its time accept and newer ones refuse."""
    pin = view.known("gcc")
    if pin is None:
        return
    for project in view.stack.projects:
        facts = view.facts["projects"]["compilers"].get(project)
        if facts:
            refused = error(f"{project} with gcc {pin.text}: {facts['text']}", facts["source"])
            verdict = shared((f"gcc {v}", refused if key(v) >= key(facts["gcc_below"]) else None) for v in pin.versions)
            if verdict:
                yield (f"source={project}", pin.label), verdict
