"""Recipes, locks, logs and rules that were spoilt."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import yaml
from hypothesis import given

from reprokit.compat.evaluate import evaluate
from reprokit.compat.facts import bundled
from reprokit.compat.model import KnownHost
from reprokit.compat.stack import stack_of
from reprokit.config import Configuration
from reprokit.errors import UsageError
from reprokit.explain.judge import explain
from reprokit.explain.literals import literals
from reprokit.explain.load import user_rules
from reprokit.image.render import render
from reprokit.recipe.find import Target, recipe_files
from reprokit.recipe.load import load_text
from reprokit.supply.kinds.apt.settings import AptSettings
from reprokit.supply.lock import file as lock_file
from reprokit.supply.mirrors import Mirrors
from reprokit.supply.store import Store
from tests.support import logs
from tests.support.fuzzing import Watch, fuzzed, lines, spoilt, trees


def _one(text: str) -> Any:
    """A recipe with its default variant alone: several take several times as long."""
    document = yaml.load(text, yaml.CSafeLoader)
    name = document.pop("default", "") or next(iter(document["variants"]))
    document["benchmarks"] = dict(list(document.get("benchmarks", {}).items())[:1])
    for each in (*document.get("smoke", ()), *document["benchmarks"].values()):
        each.pop("variants", None)
    parse = [each["parse"] for each in document["benchmarks"].values()]
    metrics = [value["metric"] for each in parse for value in each.get("values", ())]
    document["claims"] = [claim for claim in document.get("claims", ()) if claim["metric"] in metrics]
    return {**document, "variants": {name: document["variants"][name]}}


def read_recipe(document: Any) -> None:
    # JSON is YAML, too, and faster to write.
    recipe = load_text(
        json.dumps(document), "paper.yaml", str(document.get("name")) if isinstance(document, dict) else "x"
    )
    for name, variant in recipe.variants.items():
        evaluate(bundled(), stack_of(variant, (), None, KnownHost(1 << 34, 1 << 40), False))
        render(Target(recipe, name, Path("paper.yaml")))


RECIPES = [_one(file.read_text()) for file in recipe_files().values()]


@fuzzed
@given(trees(*RECIPES))
def test_recipe(watch: Watch, document: Any) -> None:
    watch(lambda: read_recipe(document))


LOCK = yaml.load(lock_file.lock_path(recipe_files()["fused-attention"]).read_text(), yaml.CSafeLoader)
for variant in LOCK["variants"].values():
    for name in ("apt", "wheels", "files", "conda", "git"):
        variant[name] = variant.get(name, [])[:2]
    if variant["base"].get("bootstrap"):
        variant["base"]["bootstrap"]["packages"] = variant["base"]["bootstrap"]["packages"][:2]


def read_lock(folder: Path, document: Any) -> None:
    lock = lock_file.parse(json.dumps(document), "x.lock.yaml", "fused-attention")
    mirrors = Mirrors(Store(folder / "node"), Configuration(), apt=AptSettings())
    for variant in lock.variants.values():
        for each in variant.locked_inputs():
            if each.kind != "wheels":  # which are looked up
                list(mirrors.urls(each))
    lock_file.text_of(lock)


@fuzzed
@given(trees(LOCK))
def test_lock(watch: Watch, folder: Path, document: Any) -> None:
    watch(lambda: read_lock(folder, document))


def test_those_that_are_not_spoilt(folder: Path) -> None:
    for document in RECIPES:
        read_recipe(document)
    read_lock(folder, LOCK)


# --- Logs and rules: no crash, no control characters, bounded time and memory

VALID = [form(log.log).encode() for log in logs.corpus()[::12] for form in logs.FORMS.values()]
RULE = """\
- id: a-rule
  patterns: ['something (?P<what>\\S+) failed', '(?i)other [^]]+ text']
  near: 'x+'
  cause: "the {what} has failed"
  remedy: "mend it"
  seen: "here"
  example: "something x failed"
"""


@fuzzed
@given(raw=spoilt(*VALID))
def test_spoilt_logs(watch: Watch, raw: bytes):
    watch(lambda: explained(raw))


def explained(raw: bytes) -> None:
    found = explain(io.BytesIO(raw))
    for cause in found.causes:
        texts = (cause.text, cause.cause, cause.remedy, *(text for _, text in cause.context))
        assert all(text.replace("\n", "").replace("\t", "").isprintable() for text in texts)
        assert 1 <= cause.line <= raw.count(b"\n") + 1
    json.dumps(found.as_json())


@fuzzed
@given(text=lines(RULE))
def test_spoilt_rules(watch: Watch, folder: Path, text: str):
    rules = folder / "rules"
    rules.mkdir(exist_ok=True)
    (rules / "own.yaml").write_text(text, encoding="utf-8", errors="replace")
    watch(lambda: loaded(rules))


def loaded(rules: Path) -> None:
    try:
        found = user_rules(rules)
    except UsageError as error:
        assert error.where.startswith(str(rules))
        return
    assert all(literals(pattern) for rule in found for pattern in rule.patterns)
