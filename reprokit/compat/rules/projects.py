"""Source trees that a recipe builds."""

from __future__ import annotations

from collections.abc import Iterator

from reprokit.compat.model import COMPILE
from reprokit.compat.rule import Problem, rule, warning
from reprokit.compat.view import View


@rule("submodules", purposes=COMPILE)
def submodules(view: View) -> Iterator[Problem]:
    """A tree that needs its submodules and is checked out without them."""
    for project in view.stack.bare_projects:
        if facts := view.facts.projects.get(project):
            reason = (
                f"{project} builds only with its submodules ({', '.join(facts.needs)}), otherwise: {facts.symptom}. "
                "Set `submodules: true`"
            )
            yield Problem((f"source={project}",), warning(reason, facts.source))
