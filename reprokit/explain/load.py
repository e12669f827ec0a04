"""The rules that come with reprokit, and the user's own beside its configuration file."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from pydantic import ValidationError

from reprokit.errors import UsageError
from reprokit.explain.literals import FixedText, literals
from reprokit.explain.loose import escaped, freed, marked
from reprokit.explain.model import BUNDLED, LogRule, Signs
from reprokit.paths import config_file
from reprokit.recipe.yaml import FastLoader, read
from reprokit.untrusted import files
from reprokit.untrusted.documents import first_fault
from reprokit.untrusted.patterns import PatternSet, compiled_bytes

FOLDER = Path(__file__).parent / "rules"
_SIGNS = "signs.yaml"
_STATUSES = "statuses.yaml"
_LARGEST = 1 << 20


class Matcher(NamedTuple):
    """Everything that is searched for. `owners[n]` is the rule or the sign that pattern `n` belongs to."""

    rules: dict[str, LogRule]
    patterns: list[str]
    owners: list[LogRule | str]
    texts: PatternSet  # the fixed texts of all patterns
    by_text: list[list[int]]  # the patterns with text `n`
    without_text: list[int]
    prefilter: Any  # a pattern of bytes that finds every line that a pattern could match

    def search(self, line: bytes) -> list[int]:
        """The numbers of the patterns that match somewhere in `line`, the smallest first.

        An RE2 set of the patterns themselves takes five times as long: its states are too large.
        """
        numbers = {*self.without_text, *(number for text in self.texts.search(line) for number in self.by_text[text])}
        return [number for number in sorted(numbers) if freed(self.patterns[number]).search(line)]


def user_folder() -> Path:
    """Where users put rules of their own."""
    return config_file().parent / "rules"


@lru_cache(maxsize=1)
def bundled() -> tuple[list[LogRule], Signs]:
    """The rules and signs that come with reprokit."""
    rules: list[LogRule] = []
    for path in sorted(FOLDER.glob("*.yaml")):
        if path.name not in (_SIGNS, _STATUSES):
            entries = yaml.load(path.read_bytes(), FastLoader)
            rules += [LogRule.model_validate(entry, context=BUNDLED) for entry in entries]
    return rules, Signs.model_validate(yaml.load((FOLDER / _SIGNS).read_bytes(), FastLoader), context=BUNDLED)


@lru_cache(maxsize=1)
def statuses() -> dict[str, str]:
    """What each form of a status code means."""
    entries = yaml.load((FOLDER / _STATUSES).read_bytes(), FastLoader)
    return {name: entry["means"] for entry in entries for name in entry["names"]}


@lru_cache(maxsize=1)
def _any_status() -> re.Pattern[str]:
    return re.compile("|".join(rf"(?<!\w){re.escape(name)}(?!\w)" for name in statuses()))


def status(text: str) -> tuple[str, str] | None:
    """The first status code in a text that `statuses` knows, and its meaning; None without one."""
    found = _any_status().search(text)
    return (found[0], statuses()[found[0]]) if found else None


def user_rules(folder: Path) -> list[LogRule]:
    """The rules of a folder's `*.yaml`; none if it does not exist. Raises UsageError naming file and line."""
    return [rule for path in sorted(folder.glob("*.yaml")) for rule in _file(path)]


def _file(path: Path) -> list[LogRule]:
    document = read(files.read(path, _LARGEST).decode("utf-8", "replace"), str(path))
    if not isinstance(document.data, list):
        raise UsageError("rules are a YAML list", str(path), "begin each rule with `- id: NAME`")
    found = []
    for number, entry in enumerate(document.data):
        try:
            found.append(LogRule.model_validate(entry))
        except ValidationError as error:
            field, problem = first_fault(error)
            place = (number, *(int(part) if part.isdigit() else part for part in field.split(".") if part))
            name = entry.get("id", number + 1) if isinstance(entry, dict) else number + 1
            where = f"{path}:{document.line(place)}"
            raise UsageError(f"rule {name}: {field or 'the rule'}: {problem}", where) from None
    return found


@lru_cache(maxsize=1)
def matcher() -> Matcher:
    """All rules, compiled once. A user's rule replaces the bundled one of the same id."""
    rules, signs = bundled()
    own = user_rules(user_folder())
    return compile_rules([*rules, *own], signs) if own else bundled_matcher()


@lru_cache(maxsize=1)
def bundled_matcher() -> Matcher:
    return compile_rules(*bundled())


def compile_rules(rules: list[LogRule], signs: Signs) -> Matcher:
    """A matcher of these rules and signs; of two rules with one id the later is used."""
    named = {rule.id: rule for rule in rules}
    owned: list[tuple[str, LogRule | str]] = [(p, rule) for rule in named.values() for p in rule.patterns]
    owned += [(p, sign) for sign, patterns in signs for p in patterns]
    patterns = [pattern for pattern, _ in owned]
    owners = [owner for _, owner in owned]
    by_text: dict[FixedText, list[int]] = {}
    without_text, needed = [], set()
    for number, owner in enumerate(owners):
        try:
            texts = literals(marked(patterns[number]))
        except ValueError:  # only of signs that a line is harmless
            without_text.append(number)
            continue
        for text in texts:
            by_text.setdefault(text, []).append(number)
        if owner != "harmless":
            needed.update(texts)
    together = PatternSet([escaped(text) for text in by_text])
    return Matcher(named, patterns, owners, together, list(by_text.values()), without_text, _prefilter(needed))


def _prefilter(texts: set[FixedText]) -> Any:
    needed: list[FixedText] = []
    for literal in sorted(texts, key=lambda found: len(found.text)):
        if not any(short.text in literal.text and short.fold >= literal.fold for short in needed):
            needed.append(literal)
    return compiled_bytes("|".join(map(escaped, needed)))
