"""APIs that the paper's code calls and that a pinned release no longer has, or does not have yet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reprokit.compat.verdict import Clash, Verdict, error, shared, unknown
from reprokit.compat.version import begins, key
from reprokit.compat.view import View


def check(view: View) -> Iterator[Clash]:
    for need in view.stack.needs_apis:
        name, _, api = need.partition(":")
        pin = view.pin(name)
        if pin is None:
            continue
        facts = _facts(view, name, api)
        subject = f"needs={need}"
        if facts is None:
            yield (pin.label, subject), unknown(f"no fact covers the API {api} of {name}")
            continue
        versions = pin.versions or ((pin.text,) if name == "transformers" else ())
        verdict = shared((f"{name} {v}", _judge(facts, name, api, v)) for v in versions)
        if verdict:
            yield (pin.label, subject), verdict


def _facts(view: View, name: str, api: str) -> dict[str, Any] | None:
    table = view.facts["apis"].get(name, {})
    plain = _plain(api)
    for known, facts in table.items():
        if plain in (_plain(known), *map(_plain, facts.get("aliases", ()))):
            return dict(facts)
    return None


def _plain(api: str) -> str:
    return api.replace(" ", "").replace("=...", "").replace("=", "").lower()


def _judge(facts: dict[str, Any], name: str, api: str, version: str) -> Verdict | None:
    instead = f"; it is {facts['replacement']} since" if "replacement" in facts else ""
    sources = facts["source"]
    if "removed_in" in facts and key(version) >= key(facts["removed_in"]):
        return error(f"{name} {version} has no {api}: removed in {facts['removed_in']}{instead}", sources)
    if "added_in" in facts and key(version) < key(facts["added_in"]):
        return error(f"{name} {version} has no {api} yet: added in {facts['added_in']}", sources)
    if "changed_in" in facts and key(version) >= key(facts["changed_in"]):
        return error(f"{api} means another thing since {name} {facts['changed_in']}: {facts['note']}", sources)
    if any(begins(v, version) for v in facts.get("fails", ())):
        return error(f"{api} fails with {name} {version}: {facts['note']}", sources)
    if "works" in facts and not any(begins(v, version) for v in facts["works"]):
        return unknown(f"{api} was not tried with {name} {version}; it works with {', '.join(facts['works'])}", sources)
    return None
