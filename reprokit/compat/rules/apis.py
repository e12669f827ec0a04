"""APIs that the paper's code calls and that a pinned release does not have."""

from __future__ import annotations

from collections.abc import Iterator

from reprokit.compat.facts import Facts
from reprokit.compat.rule import Problem, Verdict, combined, error, rule, unknown
from reprokit.compat.schema import Api
from reprokit.compat.version import begins, key, parts
from reprokit.compat.view import View


@rule("needs-api", changes="dgl tvm cutlass gcc transformers python")
def needs_api(view: View) -> Iterator[Problem]:
    for need in view.stack.needs_apis:
        name, _, text = need.partition(":")
        pin = view.pin(name)
        if pin is None:
            continue
        subjects, api = (pin.label, f"needs={need}"), _find(view.facts, name, text)
        if api is None:
            yield Problem(subjects, unknown(f"no fact covers the API {text} of {name}"))
            continue
        versions = pin.versions or ((pin.text,) if name == "transformers" and parts(pin.text) else ())
        yield Problem(subjects, combined((f"{name} {v}", _judge(api, name, text, v)) for v in versions))


def _find(facts: Facts, name: str, text: str) -> Api | None:
    for known, api in facts.apis.get(name, {}).items():
        if _plain(text) in map(_plain, (known, *api.aliases)):
            return api
    return None


def _plain(text: str) -> str:
    return text.replace(" ", "").replace("=...", "").replace("=", "").lower()


def _judge(api: Api, name: str, text: str, version: str) -> Iterator[Verdict]:
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
