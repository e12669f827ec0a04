"""CMake 4 with projects that ask for compatibility with CMake before 3.5."""

from __future__ import annotations

from collections.abc import Iterator

from reprokit.compat.facts import Facts
from reprokit.compat.rule import COMPILE, Problem, Verdict, combined, error, rule
from reprokit.compat.version import key
from reprokit.compat.view import View


@rule("cmake-4", changes="cmake tvm distro", purposes=COMPILE)
def cmake4(view: View) -> Iterator[Problem]:
    pin, distro = view.known("cmake"), view.known("distro")
    if pin is not None:
        versions, label = pin.versions, pin.label
    elif distro is not None and not view.pin("cmake"):
        versions, label = (view.distro(distro.versions[0]).cmake,), distro.label
    else:
        return
    facts = view.facts.cmake.cmake4
    for row in facts.pins:
        if old := view.known(row.pin):
            verdict = combined(
                (f"{row.pin} {v} with CMake {c}", _judge(view.facts, f"{row.pin} {v}", c) if row.covers(v) else None)
                for v in old.versions
                for c in versions
            )
            if verdict:
                yield Problem((old.label, label), verdict)
    for project in view.stack.projects:
        if project in facts.projects:
            verdict = combined((f"CMake {c}", _judge(view.facts, project, c)) for c in versions)
            if verdict:
                yield Problem((f"source={project}", label), verdict)


def _judge(facts: Facts, what: str, cmake: str) -> Verdict | None:
    rule = facts.cmake.cmake4
    if key(cmake) < key(rule.first):
        return None
    reason = f"CMake {cmake} refuses to configure {what}: {rule.text}; pin CMake 3, or set {rule.override}"
    return error(reason, rule.source)
