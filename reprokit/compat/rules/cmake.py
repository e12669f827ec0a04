"""CMake 4 with projects that ask for compatibility with CMake before 3.5."""

from __future__ import annotations

from collections.abc import Iterator

from reprokit.compat.verdict import Clash, Verdict, error, shared
from reprokit.compat.version import key, within
from reprokit.compat.view import View


def check(view: View) -> Iterator[Clash]:
    pin, distro = view.known("cmake"), view.known("distro")
    if pin is not None:
        versions, label = pin.versions, pin.label
    elif distro is not None and not view.pin("cmake"):
        versions, label = (view.facts["distros"]["distros"][distro.versions[0]]["cmake"],), distro.label
    else:
        return
    facts = view.facts["cmake"]["cmake4"]
    for row in facts["pins"]:
        old = view.known(row["pin"])
        if old is not None:
            cases = (
                (f"{row['pin']} {v} with CMake {c}", _judge(facts, row, v, c)) for v in old.versions for c in versions
            )
            verdict = shared(cases)
            if verdict:
                yield (old.label, label), verdict
    for project in view.stack.projects:
        if project in facts["projects"]:
            verdict = shared((f"CMake {c}", _judge(facts, {}, project, c)) for c in versions)
            if verdict:
                yield (f"source={project}", label), verdict


def _judge(facts: dict, row: dict, what: str, cmake: str) -> Verdict | None:
    if key(cmake) < key(facts["from"]) or (row and not within(what, row)):
        return None
    name = f"{row['pin']} {what}" if row else what
    return error(f"CMake {cmake} refuses {name}: {facts['text']}; {facts['override']} lets it pass", facts["source"])
