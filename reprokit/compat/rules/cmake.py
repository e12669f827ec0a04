"""CMake 4 with projects that ask for compatibility with CMake before 3.5."""

from __future__ import annotations

from collections.abc import Iterator

from reprokit.compat.facts import Facts
from reprokit.compat.model import COMPILE
from reprokit.compat.rule import Problem, Verdict, combined, error, rule
from reprokit.compat.version import older
from reprokit.compat.view import View


@rule("cmake-4", changes="cmake tvm distro", purposes=COMPILE)
def cmake4(view: View) -> Iterator[Problem]:
    if (pin := view.pin("cmake")) is not None:
        versions, label = pin.versions, pin.label
    elif (distro := view.known("distro")) is not None:
        versions, label = (view.distro(distro.versions[0]).cmake,), distro.label
    else:
        return
    facts = view.facts.cmake.cmake4
    for row in facts.pins:
        if old := view.known(row.pin):
            verdicts = (
                (f"{row.pin} {v} with CMake {c}", _judge(view.facts, f"{row.pin} {v}", c) if row.covers(v) else ())
                for v in old.versions
                for c in versions
            )
            yield Problem((old.label, label), combined(verdicts))
    for project in (p for p in view.stack.projects if p in facts.projects):
        verdict = combined((f"CMake {c}", _judge(view.facts, project, c)) for c in versions)
        yield Problem((f"source={project}", label), verdict)


def _judge(facts: Facts, what: str, cmake: str) -> Iterator[Verdict]:
    rule = facts.cmake.cmake4
    if not older(cmake, rule.first):
        reason = f"CMake {cmake} refuses to configure {what}: {rule.text}; pin CMake 3, or set {rule.override}"
        yield error(reason, rule.source)
