"""The rules that come with reprokit, compiled once, and the user's own beside its configuration file."""

from __future__ import annotations

import hashlib
import json
import os
import re
from contextlib import suppress
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from reprokit import paths
from reprokit.errors import UsageError
from reprokit.explain.index import WordIndex, indexed
from reprokit.explain.literals import FixedText, literals
from reprokit.explain.loose import escaped, freed, marked
from reprokit.explain.model import Change, LogRule, Signs
from reprokit.recipe.yaml import FastLoader, read
from reprokit.untrusted import files
from reprokit.untrusted.documents import first_fault
from reprokit.untrusted.patterns import PatternSet, compiled_bytes

FOLDER = Path(__file__).parent / "rules"
# Made when the package is built; a checkout makes it at the first use.
COMPILED = Path(__file__).parent / "compiled.json"
CORPUS = Path(__file__).parents[2] / "tests" / "explain" / "corpus"
_SIGNS = "signs.yaml"
_STATUSES = "statuses.yaml"
_MEASURED = "measured.yaml"
_LARGEST = 1 << 20


class Matcher:
    """Everything that is searched for. `owners[n]` is the rule or the sign that pattern `n` belongs to."""

    def __init__(self, compiled: dict[str, Any], own: list[LogRule]) -> None:
        """`compiled` is what `compile_rules` returns; a rule of `own` replaces one of the same id."""
        self.rules = {entry["id"]: _rule(entry) for entry in compiled["rules"]} | {rule.id: rule for rule in own}
        self.patterns: list[str] = []
        self.owners: list[LogRule | str] = []
        self._replaced: set[int] = set()  # patterns that are not searched for
        for entry in compiled["rules"]:
            rule, patterns = self.rules[entry["id"]], entry["patterns"]
            if rule in own:
                self._replaced |= {*range(len(self.patterns), len(self.patterns) + len(patterns))}
            self.patterns += patterns
            self.owners += [rule] * len(patterns)
        for sign, patterns in compiled["signs"].items():
            self.patterns += patterns
            self.owners += [sign] * len(patterns)
        texts: dict[str, list[int]] = {**compiled["texts"]}
        prefilter = list(compiled["prefilter"])
        for rule in own:
            for pattern in rule.patterns:
                for text in map(escaped, literals(marked(pattern))):
                    texts[text] = [*texts.get(text, ()), len(self.patterns)]
                    prefilter.append(text)
                self.patterns.append(pattern)
                self.owners.append(rule)
        self.texts = PatternSet(list(texts))
        self._by_text = list(texts.values())
        self._without_text: list[int] = compiled["without_text"]
        # Finds every line that a pattern could match.
        self.prefilter = compiled_bytes("|".join(prefilter))
        # Right answers and all answers, by kind of cause and opinion of the index.
        self.measured: dict[str, dict[str, tuple[int, int]]] = compiled["measured"]
        self._statuses: dict[str, str] = compiled["statuses"]
        self._index: dict[str, Any] = compiled["index"]

    def search(self, line: bytes) -> list[int]:
        """The numbers of the patterns that match somewhere in `line`, the smallest first.

        An RE2 set of the patterns themselves takes five times as long: its states are too large.
        """
        numbers = {*self._without_text, *(number for text in self.texts.search(line) for number in self._by_text[text])}
        return [n for n in sorted(numbers) if n not in self._replaced and freed(self.patterns[n]).search(line)]

    def status(self, text: str) -> tuple[str, str] | None:
        """The first status code in a text that is known, and its meaning; None without one."""
        match = self._any_status.search(text)
        return (match[0], self._statuses[match[0]]) if match else None

    @cached_property
    def _any_status(self) -> re.Pattern[str]:
        return re.compile("|".join(rf"(?<!\w){re.escape(name)}(?!\w)" for name in self._statuses))

    @cached_property
    def index(self) -> WordIndex:
        return WordIndex(self._index)


def _rule(entry: dict[str, Any]) -> LogRule:
    """A rule that was validated when it was compiled."""
    return LogRule.model_construct(**{**entry, "change": [Change.model_construct(**each) for each in entry["change"]]})


def user_folder() -> Path:
    """Where users put rules of their own."""
    return paths.config_file().parent / "rules"


def bundled() -> tuple[list[LogRule], Signs]:
    """The rules and signs that come with reprokit, validated."""
    rules: list[LogRule] = []
    for path in sorted(FOLDER.glob("*.yaml")):
        if path.name not in (_SIGNS, _STATUSES, _MEASURED):
            rules += map(LogRule.model_validate, yaml.load(path.read_bytes(), FastLoader))
    return rules, Signs.model_validate(yaml.load((FOLDER / _SIGNS).read_bytes(), FastLoader))


def user_rules(folder: Path) -> list[LogRule]:
    """The rules of a folder's `*.yaml`; none if it does not exist. Raises UsageError naming file and line."""
    return [rule for path in sorted(folder.glob("*.yaml")) for rule in _file(path)]


def _file(path: Path) -> list[LogRule]:
    document = read(files.read(path, _LARGEST).decode("utf-8", "replace"), str(path))
    if not isinstance(document.data, list):
        raise UsageError("rules are a YAML list", str(path), "begin each rule with `- id: NAME`")
    rules = []
    for number, entry in enumerate(document.data):
        try:
            rules.append(LogRule.model_validate(entry))
        except ValidationError as error:
            field, problem = first_fault(error)
            place = (number, *(int(part) if part.isdigit() else part for part in field.split(".") if part))
            name = entry.get("id", number + 1) if isinstance(entry, dict) else number + 1
            where = f"{path}:{document.line(place)}"
            raise UsageError(f"rule {name}: {field or 'the rule'}: {problem}", where) from None
    return rules


@lru_cache(maxsize=1)
def matcher() -> Matcher:
    """All rules. Raises UsageError if one of the user's is wrong."""
    own = user_rules(user_folder())
    return Matcher(compiled_rules(), own) if own else bundled_matcher()


@lru_cache(maxsize=1)
def bundled_matcher() -> Matcher:
    return Matcher(compiled_rules(), [])


def compiled_rules() -> dict[str, Any]:
    """The compiled rules. Those of a checkout are compiled again after each change of their sources."""
    key = _key() if CORPUS.exists() else ""
    with suppress(OSError, ValueError, KeyError, TypeError):  # missing or damaged
        kept: dict[str, Any] = json.loads(COMPILED.read_bytes())
        if kept["key"] == key or not key:
            return kept
    rules = {"key": key, **compile_bundled()}
    new = COMPILED.with_name(f".{COMPILED.name}.{os.getpid()}")
    with suppress(OSError):  # another user's checkout
        new.write_text(json.dumps(rules), "utf-8")
        new.replace(COMPILED)
    return rules


def _key() -> str:
    sources = [*Path(__file__).parent.glob("*.py"), *FOLDER.glob("*.yaml"), *CORPUS.glob("*.yaml")]
    hashed = hashlib.sha256()
    for path in sorted(sources):
        hashed.update(path.read_bytes())
    return hashed.hexdigest()


def compile_bundled() -> dict[str, Any]:
    """The compiled rules that come with reprokit, with the index of the corpus's lines."""
    rules, signs = bundled()
    statuses = yaml.load((FOLDER / _STATUSES).read_bytes(), FastLoader)
    logs = [entry for path in sorted(CORPUS.glob("*.yaml")) for entry in yaml.load(path.read_bytes(), FastLoader)]
    return {
        **compile_rules(rules, signs),
        "statuses": {name: entry["means"] for entry in statuses for name in entry["names"]},
        "measured": yaml.load((FOLDER / _MEASURED).read_bytes(), FastLoader),
        "index": indexed(rules, logs),
    }


def compile_rules(rules: list[LogRule], signs: Signs) -> dict[str, Any]:
    """What a matcher of these rules and signs needs, as JSON's types."""
    owned = [(pattern, rule.id) for rule in rules for pattern in rule.patterns]
    owned += [(pattern, sign) for sign, patterns in signs for pattern in patterns]
    texts: dict[FixedText, list[int]] = {}
    without_text, needed = [], set()
    for number, (pattern, owner) in enumerate(owned):
        try:
            own_texts = literals(marked(pattern))
        except ValueError:  # only of signs that a line is harmless
            without_text.append(number)
            continue
        for text in own_texts:
            texts.setdefault(text, []).append(number)
        if owner != "harmless":
            needed.update(own_texts)
    return {
        "rules": [rule.model_dump() for rule in rules],
        "signs": signs.model_dump(),
        "texts": {escaped(text): numbers for text, numbers in texts.items()},
        "without_text": without_text,
        "prefilter": [escaped(text) for text in _shortest(needed)],
    }


def _shortest(texts: set[FixedText]) -> list[FixedText]:
    """The texts of which no other holds one."""
    shortest: list[FixedText] = []
    for text in sorted(texts, key=lambda each: len(each.text)):
        if not any(short.text in text.text and short.fold >= text.fold for short in shortest):
            shortest.append(text)
    return shortest
