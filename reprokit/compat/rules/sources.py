"""Source trees that a recipe builds: their CMake, their submodules, and the APIs that the paper's code calls."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from reprokit.compat.facts import Facts
from reprokit.compat.interfaces import Range, history
from reprokit.compat.model import COMPILE
from reprokit.compat.rule import Problem, Verdict, combined, error, problems, rule, unknown, warning
from reprokit.compat.schema import AffectedPin, Api
from reprokit.compat.version import begins, key, older, parts
from reprokit.compat.view import View


@rule("needs-api", changes="dgl tvm cutlass gcc transformers python numpy torch jax cuda llvmlite")
def needs_api(view: View) -> Iterator[Problem]:
    for need in view.stack.needs_apis:
        name, _, text = need.partition(":")
        pin = view.pin(name)
        if pin is None:
            continue
        subjects = (pin.label, f"needs={need}")
        versions = pin.versions or ((pin.text,) if parts(pin.text) else ())
        if api := _find_api(view.facts, name, text):
            yield Problem(subjects, combined((f"{name} {v}", _judge_api(api, name, text, v)) for v in versions))
        elif span := history(name, text):
            yield Problem(subjects, combined((f"{name} {v}", _judge_range(span, v)) for v in versions))
        else:
            yield Problem(subjects, unknown(f"no fact covers the API {text} of {name}"))


def _find_api(facts: Facts, name: str, text: str) -> Api | None:
    for signature, api in facts.apis.get(name, {}).items():
        if _plain(text) in map(_plain, (signature, *api.aliases)):
            return api
    return None


def _judge_range(span: Range, version: str) -> Iterator[Verdict]:
    if not span.has(version):
        yield error(f"{span.package} {version} has no {span.name}; {span}", ["wheel_interfaces"])


def _plain(text: str) -> str:
    return text.replace(" ", "").replace("=...", "").replace("=", "").lower()


def _judge_api(api: Api, name: str, text: str, version: str) -> Iterator[Verdict]:
    if api.removed_in and key(version) >= key(api.removed_in):
        instead = f"; use {api.replacement}" if api.replacement else ""
        yield error(f"{name} {version} has no {text}: it was removed in {api.removed_in}{instead}", api.source)
    if api.added_in and key(version) < key(api.added_in):
        yield error(f"{name} {version} has no {text}: it was added in {api.added_in}", api.source)
    if api.changed_in and key(version) >= key(api.changed_in):
        yield error(f"{text} changed its meaning in {name} {api.changed_in}: {api.note}", api.source)
    if any(begins(v, version) for v in api.fails):
        yield error(f"{text} fails with {name} {version}: {api.note}", api.source)
    if api.works and not any(begins(v, version) for v in api.works):
        tried = ", ".join(api.works)
        yield unknown(f"{text} was not tested with {name} {version}; it works with {tried}", api.source)


@rule("cmake-4", changes="cmake tvm distro", purposes=COMPILE)
def cmake4(view: View) -> Iterator[Problem]:
    """The pinned CMake, else the distribution's."""
    facts, side = view.facts.cmake.cmake4, "cmake" if view.pin("cmake") else "distro"
    for row in facts.pins:
        yield from problems(view, (row.pin, side), partial(_judge_pin, row))
    for project in (p for p in view.stack.projects if p in facts.projects):
        for subjects, verdict in problems(view, (side,), partial(_judge_cmake, project)):
            yield Problem((f"source={project}", *subjects), verdict)


def _judge_pin(row: AffectedPin, view: View, version: str, cmake: str) -> Iterator[Verdict]:
    if row.covers(version):
        yield from _judge_cmake(f"{row.pin} {version}", view, cmake)


def _judge_cmake(what: str, view: View, cmake: str) -> Iterator[Verdict]:
    """`cmake` is a release, or the distribution that has one."""
    rule, cmake = view.facts.cmake.cmake4, view.distro(cmake).cmake if ":" in cmake else cmake
    if not older(cmake, rule.first):
        reason = f"CMake {cmake} refuses to configure {what}: {rule.text}; pin CMake 3, or set {rule.override}"
        yield error(reason, rule.source)


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
