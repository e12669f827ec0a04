"""One pass over a log: which rules and signs match where."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from typing import IO, Any

from reprokit.explain import ending
from reprokit.explain.blocks import LogBlock, blocks
from reprokit.explain.load import Matcher
from reprokit.explain.loose import freed
from reprokit.explain.model import LogRule
from reprokit.explain.place import LONGEST, Place, longest, normalised, part_of_line, readable, unknown_prefix
from reprokit.explain.tracebacks import exception, raised
from reprokit.explain.versions import SeenVersion, first_of_each, versions
from reprokit.untrusted.patterns import compiled_bytes

_VALUE = 200
# Suspicious lines that are examined; after those, only the log's last block.
MOST = 100_000
# Lines that are held against a rule's `near` and `without`; the rest are taken for more of the same.
_MOST_A_RULE = 500
_MOST_ERRORS = 50
# Bytes at the beginning and at the end that are searched for versions.
_AT_AN_END = 64 << 10
# Errors further apart than this have nothing to do with one another.
NEAR = 60
_ENDS_NOTHING = re.compile(rb"(?:Exception ignored in|--- Logging error ---|Error in atexit)[^\n]*\n[^\n]*$")
# Lines before a sign that a tool went on which that sign excuses.
_EXCUSED = 12
# A line that calls itself a warning ended nothing if an error follows.
WARNING = re.compile(r"^\W*(?:\S+ ){0,3}(?:WARNING|[Ww]arning)\b|^WARN\[|: warning: |\w+Warning: ")
_PYTHON_WARNING = re.compile(r"\w+Warning: ")
# Source code in a traceback or below a warning.
_SOURCE = re.compile(r"^raise \w|^warnings?\.warn")
_BREAK = re.compile(rb"\s*\n\s*")


@dataclass
class Hit:
    """The first match of a rule or of an unknown error, and the line of its last match.

    An error replaces a match that only warns or is source code. `excused` is the line of the last match that a sign
    of `survived` follows.
    """

    line: int
    text: str
    values: dict[str, str]
    context: list[tuple[int, str]]
    last: int
    length: int = 0  # of the text that matched; less if only the freed pattern did
    excused: int = 0


@dataclass
class Scan:
    """What a log contains."""

    rules: dict[str, Hit] = field(default_factory=dict)
    errors: list[Hit] = field(default_factory=list)
    signs: dict[str, int] = field(default_factory=dict)  # the last line of each kind
    lines: int = 0
    examined: int = 0
    tried: dict[str, int] = field(default_factory=dict)  # lines held against each rule
    tail: Hit | None = None  # the last line that is not empty
    complaints: list[Hit] = field(default_factory=list)  # near the end, lines with words of an error
    results: list[int] = field(default_factory=list)  # near the end, lines that report results
    ignored: int = 0  # the last line of an exception that ends nothing
    good: frozenset[bytes] = frozenset()  # lines of earlier successes, normalised
    new: tuple[int, str] | None = None  # the first line that is not one of them
    versions: list[SeenVersion] = field(default_factory=list)  # at the beginning and the end
    went_on: int = 0  # near the end, the last line that says that something was achieved


def scan(log: IO[bytes], matcher: Matcher, good: frozenset[bytes] = frozenset()) -> Scan:
    """Examine the suspicious lines of a log. Memory does not grow with the log."""
    scanned = Scan(good=good)
    for block in blocks(log):
        if scanned.examined < MOST or block.last:
            _examine(block, matcher, scanned)
        if good and scanned.new is None:
            scanned.new = _first_new(block, good)
        if block.line == 1:
            scanned.versions = versions(block.text[:_AT_AN_END], 1)
        if block.last:
            cut = max(0, len(block.text) - _AT_AN_END)
            at_end = versions(block.text[cut:], block.line + block.text.count(b"\n", 0, cut))
            scanned.versions = first_of_each([*scanned.versions, *at_end])
            scanned.lines = block.line + block.text.count(b"\n") - block.text.endswith(b"\n")
            scanned.tail = _tail(block)
            scanned.complaints = _complaints(block, matcher, scanned)
    return scanned


def _first_new(block: LogBlock, good: frozenset[bytes]) -> tuple[int, str] | None:
    """The first line of a block that no earlier success had."""
    for number, line in enumerate(block.text[block.start : block.end].split(b"\n")):
        if line.strip() and normalised(line) not in good:
            return block.line + block.text.count(b"\n", 0, block.start) + number, readable(line)
    return None


def _examine(block: LogBlock, matcher: Matcher, scanned: Scan) -> None:
    position, counted, line = block.start, 0, block.line
    limit, prefix = scanned.examined + MOST, unknown_prefix(block)
    while position < block.end and scanned.examined < limit:
        match = matcher.prefilter.search(block.text, position, block.end)
        if match is None:
            return
        scanned.examined += 1
        start, end = part_of_line(block.text, match.start(), match.end())
        line += block.text.count(b"\n", counted, start)
        counted = start
        place = Place(block, start, end, line, prefix)
        position = max(end, match.end())
        if place.is_command or (scanned.good and normalised(block.text[start:end]) in scanned.good):
            continue
        # A builder's prefix hides how a line begins.
        forms = {block.text[start:end].rstrip(), place.text, place.bare}
        numbers = sorted({number for form in forms for number in matcher.search(form)})
        if numbers:
            _record(scanned, matcher, numbers, place)


def _record(scanned: Scan, matcher: Matcher, numbers: list[int], place: Place) -> None:
    owners: dict[Any, list[int]] = {}
    for number in numbers:
        owner = matcher.owners[number]
        owners.setdefault(owner if isinstance(owner, str) else owner.id, []).append(number)
    if "harmless" in owners:  # but a loss that is NaN is reported at the level of information
        owners = {name: own for name, own in owners.items() if name in matcher.rules and matcher.rules[name].silent}
    if place.line <= scanned.ignored:
        return
    ignored = _ENDS_NOTHING.search(place.block.text, max(0, place.start - 200), place.start)
    if "traceback" in owners:
        if ignored:
            end = raised(place.block.text, place.start)
            length = place.block.text.count(b"\n", place.start, end.start) if end else 0
            scanned.ignored = place.line + length
            return
        scanned.signs["failure"] = scanned.signs["traceback"] = place.line
        _raise(scanned, place)
    elif ignored and exception(place.text):  # without a traceback
        return
    if "step" in owners:
        scanned.rules.clear()
        scanned.errors.clear()
        scanned.signs.clear()
        return
    explained = False
    for owner, own in owners.items():
        if owner in matcher.rules:
            if matcher.rules[owner].kind == "meaning":
                continue
            explained |= _match(scanned, matcher, matcher.rules[owner], min(own), place)
        elif owner == "survived":
            _excuse(scanned, place.line)
        elif owner not in ("error", "traceback"):
            scanned.signs[owner] = place.line
    if "error" in owners:
        scanned.signs["error"] = place.line
        if not explained:
            _add(scanned, _hit(place, _shown_values(exception(place.text))))


def _add(scanned: Scan, error: Hit) -> None:
    """An error of an unknown kind. What came long before it, or before a success, was survived."""
    last = scanned.errors[-1].line if scanned.errors else error.line
    if error.line - last > NEAR or last < scanned.signs.get("success", 0) < error.line:
        scanned.errors.clear()
    if (error.line != last and len(scanned.errors) < _MOST_ERRORS) or not scanned.errors:
        scanned.errors.append(error)


def _raise(scanned: Scan, place: Place) -> None:
    """The exception at the end of a traceback, whatever its class."""
    block = place.block
    end = raised(block.text, place.start)
    if end is not None:
        line = place.line + block.text.count(b"\n", place.start, end.start)
        _add(scanned, _hit(Place(block, end.start, end.end, line), _shown_values(end.values)))


def _shown_values(values: dict[str, bytes]) -> dict[str, str]:
    return {name: readable(value, _VALUE) for name, value in values.items() if value}


def _excuse(scanned: Scan, line: int) -> None:
    """The tool went on: what failed just before did not end it."""
    for hit in (*scanned.rules.values(), *scanned.errors):
        if 0 < line - hit.last <= _EXCUSED:
            hit.excused = hit.last
    if line - scanned.signs.get("error", line) <= _EXCUSED:
        scanned.signs.pop("error", None)


def _match(scanned: Scan, matcher: Matcher, rule: LogRule, number: int, place: Place) -> bool:
    hit = scanned.rules.get(rule.id)
    scanned.tried[rule.id] = scanned.tried.get(rule.id, 0) + 1
    if scanned.tried[rule.id] > _MOST_A_RULE:
        if hit is not None:
            hit.last = place.line
        return hit is not None
    around = place.around(rule.lines) if rule.near or rule.without else b""
    if rule.without and _search(rule.without, around):
        return False
    near = _search(rule.near, around) if rule.near else None
    if rule.near and near is None:
        return False
    # The words of unknown programs count if the log ends, not if something was survived.
    fresh = rule.kind == "wording" and hit is not None and place.line - hit.last > NEAR
    replaced = hit if hit and _aside(rule, hit.text) and not _aside(rule, readable(place.text)) else None
    if hit is not None and not fresh and replaced is None:
        hit.last = place.line
        return True
    pattern, whole = matcher.patterns[number], place.block.text[place.start : place.end]
    forms = (place.text, place.bare, whole)
    as_written = next(filter(None, map(_compiled(pattern).search, forms)), None)
    match = as_written or next(filter(None, (_search(pattern, form) for form in forms)), None)
    before = replaced.values if replaced else {}
    values = {**before, **(_values(near) if near else {}), **(_values(match) if match else {})}
    scanned.rules[rule.id] = hit = _hit(place, values)
    hit.length = len(match[0]) - (0 if as_written else LONGEST) if match else -LONGEST
    return True


def warns(rule: LogRule, text: str) -> bool:
    """Whether a line only warns. What an exact rule finds is a failure even at the level WARNING."""
    return bool((_PYTHON_WARNING if rule.kind == "exact" else WARNING).search(text))


def _aside(rule: LogRule, text: str) -> bool:
    return warns(rule, text) or bool(_SOURCE.search(text))


def _hit(place: Place, values: dict[str, str]) -> Hit:
    return Hit(place.line, readable(place.text), values, place.context(), place.line)


def _tail(block: LogBlock) -> Hit | None:
    text = block.text.rstrip()
    if not text:
        return None
    start, end = part_of_line(text, len(text) - 1, len(text))
    return _hit(Place(block, start, end, block.line + text.count(b"\n", 0, start)), {})


def _complaints(block: LogBlock, matcher: Matcher, scanned: Scan) -> list[Hit]:
    """Those of the last lines that no pattern knows, that read like errors, and after which nothing went on."""
    text = block.text.rstrip()
    start = len(text)
    for _ in range(ending.WINDOW):
        start = text.rfind(b"\n", 0, max(0, start))
    complaints: list[Place] = []
    line = block.line + text.count(b"\n", 0, start + 1)
    for number, part in enumerate(text[start + 1 :].split(b"\n")):
        own = longest(part)
        at = text.index(own, start + 1)
        place = Place(block, at, at + len(own), line + number)
        start += len(part) + 1
        if place.is_command or normalised(part) in scanned.good:
            continue
        if ending.is_result(place.text):
            scanned.results.append(place.line)
        if (hidden := ending.exception_at(place.text)) is not None:
            place = Place(block, place.end - len(place.text) + hidden, place.end, place.line)
            complaints.append(place)
        elif ending.reads_like_error(place.text):
            owners = [matcher.owners[number] for number in matcher.search(place.text[:LONGEST])]
            if not any(isinstance(owner, str) or owner.id in scanned.rules for owner in owners):
                complaints.append(place)
        elif ending.went_on(place.text):
            scanned.went_on = place.line
            complaints.clear()
    complaints = [place for place in complaints if place.line > scanned.signs.get("success", 0)]
    for place in complaints:  # exceptions that no sign knows, with the rules for their text
        if exception(place.text) and place.line not in (error.line for error in scanned.errors):
            _record(scanned, matcher, matcher.search(place.text), place)
    return [_hit(place, {}) for place in complaints]


def captured(pattern: str, line: bytes) -> dict[str, str]:
    """What a pattern captures in a line that it matches."""
    match = _search(pattern, line)
    return _values(match) if match else {}


def _search(pattern: str, text: bytes) -> Any:
    """What matches as the rule has it; else with another first letter, level or quotes."""
    return _compiled(pattern).search(text) or freed(pattern).search(text)


def _values(match: Any) -> dict[str, str]:
    return {
        name.decode(): readable(_BREAK.sub(b" ", value), _VALUE) for name, value in match.groupdict().items() if value
    }


@cache
def _compiled(pattern: str) -> Any:
    return compiled_bytes(pattern)
