"""`reprokit check` finds what `render` refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from reprokit.errors import UsageError

pytestmark = pytest.mark.slow

HEAD = "paper: {title: T, venue: V, year: 2022, licence: none}\n"
REFUSED = {
    "unknown-block": ('{base: "debian:12", blocks: [pyhton]}', "unknown block 'pyhton'"),
    "order": ('{base: "debian:12", pins: {python: "3.11", torch: 2.1.0}, blocks: [torch, python]}', "before it"),
    "wheels": ('{base: "debian:12", pins: {python: "3.11"}, wheels: ["six==1.16.0"], blocks: [python]}', "`wheels`"),
    "option": (
        '{base: "debian:12", pins: {python: "3.11"}, blocks: [{python: {odd: true}}]}',
        "no option 'odd'",
    ),
    "line-break": (
        '{base: "debian:12", pins: {python: "3.11"}, blocks: [python, {imports: {modules: ["a\\nb"]}}]}',
        "control character",
    ),
    "own-block": ('{base: "debian:12", blocks: [mine]}', "writes nothing"),
    "pin": ('{base: "debian:12", pins: {python: "3"}, blocks: [python]}', "needs a minor version"),
}


def test_all_that_render_refuses_is_an_error_of_check(call: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "recipes" / "blocks").mkdir(parents=True)
    (tmp_path / "recipes" / "blocks" / "mine.j2").write_text("{#\ndoes: x\n#}\n{% block final %}{% endblock %}\n")
    for name, (variant, _) in REFUSED.items():
        text = f"name: {name}\n{HEAD}variants:\n  cpu: {variant}\n"
        (tmp_path / "recipes" / f"{name}.yaml").write_text(text)
    done = call("check", *REFUSED, "--json")
    assert done.exit_code == 1, done.exception
    found = {f["recipe"]: f for f in json.loads(done.stdout)["findings"] if f["rule"] == "recipe"}
    for name, (_, words) in REFUSED.items():
        finding = found[f"{name}:cpu"]
        assert finding["severity"] == "error" and words in finding["reason"], finding
        where = "blocks/mine.j2" if name == "own-block" else f"{name}.yaml"
        assert finding["subjects"][0].startswith(str(tmp_path / "recipes" / where))
    # The same words as `render`, and the recipe that it takes has no such finding.
    refused = call("render", "order").exception
    assert isinstance(refused, UsageError)
    assert (found["order:cpu"]["reason"], found["order:cpu"]["remedy"]) == (refused.message, refused.hint)
