"""From what a log contains to its causes: the first cause, not its last consequence."""

from __future__ import annotations

from typing import IO

from reprokit.explain.demangle import demangled
from reprokit.explain.load import Matcher, matcher
from reprokit.explain.model import CONFIDENCE, Cause, Explanation, LogRule, filled
from reprokit.explain.packages import packages
from reprokit.explain.pins import pins
from reprokit.explain.scan import Hit, Scan, scan

_MOST = 5
_ORDER = ("exact", "likely", "general", "wording", "unexplained", "symptom")
# An error that a tool may survive is live where the log ends, or says that it failed, this many lines later.
_NEAR_END = 60
# An error of an unknown kind without another sign of failure counts this near to the end.
_AT_END = 30
# A cause that is followed by this many lines and by no other sign of failure was survived.
_LONG_AFTER = 5000
_UNEXPLAINED = "this is the first line that looks like an error; no rule knows it"
_LOOK = "read the lines around it; if you find the cause, add a rule to the folder of your own rules"


def explain(log: IO[bytes], failed: bool | None = None, rules: Matcher | None = None) -> Explanation:
    """The causes of a failure, best first. `failed` is how the command ended, where that is known."""
    rules = rules or matcher()
    found = scan(log, rules)
    if failed is False or (failed is None and _succeeded(found, rules)):
        return Explanation(True, [])
    causes = _causes(found, rules)
    if not causes and found.tail is not None:
        causes = [_unexplained(found.tail)]
    return Explanation(False, causes)


def _succeeded(found: Scan, rules: Matcher) -> bool:
    hits = [(rules.rules[name], hit) for name, hit in found.rules.items() if hit.excused != hit.last]
    fatal = [hit.last for rule, hit in hits if not rule.survivable and found.lines - hit.last < _LONG_AFTER]
    failure = max([found.signs.get("failure", 0), *fatal])
    success = found.signs.get("success", 0)
    if not failure:
        success = max(success, found.signs.get("progress", 0))
        # Errors of an unknown kind, and those that tools survive, count where the log ends soon after them.
        last = max([found.signs.get("error", 0), *(hit.last for _, hit in hits)])
        return last == 0 or success > last or found.lines - last > _AT_END
    return success > max(failure, found.signs.get("error", 0))


def _causes(found: Scan, rules: Matcher) -> list[Cause]:
    known = [(rules.rules[name], hit) for name, hit in found.rules.items()]
    ranked = [(_rank(rule, hit, known, found), hit.line, rule, hit) for rule, hit in known]
    ranked.sort(key=lambda entry: (entry[0], _ORDER.index(entry[2].kind), -entry[3].length))
    best: dict[int, tuple[int, int, LogRule, Hit]] = {}
    for entry in ranked:
        best.setdefault(entry[1], entry)  # of several rules that know a line: the most exact kind, the longest match
    ordered = [(rank, line, _cause(rule, hit, rank)) for rank, line, rule, hit in best.values()]
    if error := next((hit for hit in found.errors if hit.line not in best), None):
        ordered.append((_ORDER.index("unexplained"), error.line, _unexplained(error)))
    return [cause for _, _, cause in sorted(ordered, key=lambda entry: entry[:2])][:_MOST]


def _rank(rule: LogRule, hit: Hit, known: list[tuple[LogRule, Hit]], found: Scan) -> int:
    """The position in `_ORDER`. What was survived ranks below what came after it."""
    rank = _ORDER.index(rule.kind)
    end = max(found.signs.get("failure", 0), found.signs.get("error", 0)) or found.lines
    later = [
        other_rule.kind
        for other_rule, other in known
        if other.line > hit.last and not other_rule.survivable and other_rule.kind not in ("wording", "symptom")
    ]
    overtaken = bool(later) if rule.survivable else hit.excused == hit.last and bool({"exact", "likely"} & {*later})
    long_ago = (rule.survivable or hit.excused == hit.last) and end - hit.last > _NEAR_END
    survived = overtaken or long_ago
    stepped_over = rule.kind != "symptom" and found.signs.get("success", 0) > hit.last
    return _ORDER.index("symptom") if survived or stepped_over else rank


def _cause(rule: LogRule, hit: Hit, rank: int) -> Cause:
    values = {**hit.values, **pins(hit.values), **packages(hit.values)}
    if symbol := hit.values.get("symbol"):
        values["demangled"] = demangled(symbol)
    change = [
        {"op": c.op, "path": c.path, "value": filled(c.value, values) if isinstance(c.value, str) else c.value}
        for c in rule.change
        if "..." not in filled(str(c.value), values)
    ]
    confidence = CONFIDENCE[_ORDER[rank]]
    return Cause(
        rule.id,
        hit.line,
        hit.text,
        filled(rule.cause, values),
        filled(rule.remedy, values),
        change,
        confidence,
        hit.context,
    )


def _unexplained(hit: Hit) -> Cause:
    return Cause("unexplained", hit.line, hit.text, _UNEXPLAINED, _LOOK, [], CONFIDENCE["unexplained"], hit.context)
