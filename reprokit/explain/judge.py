"""From what a log contains to its causes: the first cause, not its last consequence."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import takewhile
from typing import IO

from reprokit.compat.interfaces import of_message
from reprokit.explain.advice import advice, query
from reprokit.explain.ending import LAST_WORDS
from reprokit.explain.load import Matcher, matcher
from reprokit.explain.model import FIELD, KINDS, Cause, Explanation, LogRule, Neighbour, filled
from reprokit.explain.place import shortened, unstamped
from reprokit.explain.scan import NEAR, WARNING, Hit, Scan, captured, scan, warns
from reprokit.explain.values import demangled, packages
from reprokit.explain.values import pins as implied_pins
from reprokit.explain.versions import unfit

_MOST = 5
# Characters of the log that stand in a cause.
_QUOTED = 200
# What was not captured leaves a sentence with the words that only introduce it.
_MISSING = "\0"
_LEFT_OPEN = re.compile(r" \(\0(?: \0)*\)|(?::| of| by)? \0(?=$|[ ,;:)])|(?<=\()(?:\0 )+")
# Where a tool gives the reason on the lines below.
_BELOW = re.compile(r"^(?:Caused by:|cause:|[╰├]─[▶>]|└─[▶>]|[|`]->) *(?P<why>.+)")
# Poetry prints the class of an exception alone on a line, and what it says below.
_CLASS = re.compile(r"[A-Z]\w+(?:Error|Exception)")
# Where a tool says on a line below what to do, or what it found instead.
_HINT = re.compile(r"^[Hh](?:int|elp): (?P<why>.+)")
# So many results after an error show that it ended nothing.
_RESULTS = 2
# So many errors that no rule knows are shown.
_UNKNOWN = 2
# So similar is a line that retells the same failure: see `measured`.
_NEAR = 0.6
_THREAD = 0.5
# Facts that reprokit found out itself need no second opinion.
_OWN = "reprokit: "
# Neighbours that vote for the family of a line that no rule knows.
_VOTES = 5
# Of rules that know one line, which explains it: to know a symptom is more than to know usual words.
_CLAIMS = ("exact", "likely", "general", "symptom", "wording")
# An error of an unknown kind without another sign of failure counts this near to the end.
_AT_END = 30
# A cause that is followed by this many lines and by no other sign of failure was survived.
_LONG_AFTER = 5000
# The level of a warning as glog and TensorFlow write it; the error that it leads to often follows.
_LEVEL_W = re.compile(r"^\[?(?:[\d:.,TZ-]+ )*W(?:\d{4})? |: W \w")
_LEVEL = re.compile(r"^(?:\W*\b(?:ERROR|FATAL|CRITICAL|[Ee]rror|[Ff]atal|E)\b(?: \W*|:\W*|\]\W*))+")
_WORDS = re.compile(r"[a-z]{3,}")
_UNEXPLAINED = "no rule knows this; the first line that looks like an error says"
_LOOK = "read the lines around it; if you find the cause, add a rule to the folder of your own rules"
_MEANING = {
    "KeyError": "a dictionary, table or configuration has no such entry",
    "IndexError": "an index outside of a list or array",
    "TypeError": "a value of another type, or other arguments, than expected",
    "ValueError": "a value that the code does not take",
    "AttributeError": "an object lacks what the code uses",
    "ImportError": "something cannot be imported",
    "AssertionError": "a check of the program does not hold",
    "FileNotFoundError": "a file is missing",
    "RuntimeError": "the code or a library found that it cannot go on",
    "OSError": "the operating system refused, or a file is not as expected",
    "PermissionError": "this user may not do that",
    "NotImplementedError": "the code has no implementation for this case",
    "ZeroDivisionError": "a division by zero",
    "OverflowError": "a number is too large",
    "EOFError": "an input ended too early",
    "TimeoutError": "something took too long",
    "ConnectionError": "a connection failed",
    "SystemError": "a fault in Python or in a compiled module",
    "KeyboardInterrupt": "somebody or the batch system stopped it",
}
# Faults of code, not of data. If one is raised inside a package, its version often does not fit its caller.
_CODE_FAULT = ("TypeError", "AttributeError", "NameError", "ImportError", "SyntaxError", "UnboundLocalError")
_PACKAGE = re.compile(r"(?:(?:site|dist)-packages/|^(?=[\w/]+\.pyx$))(?P<name>\w+)/")
# Classes that say less than the usual words of their message.
_ANY_FAULT = ("RuntimeError", "ValueError", "AssertionError", "Exception", "OSError", "ImportError")
_LOOK_UP = "read that line and what calls it; compare the installed versions with those that the project names"


def explain(
    log: IO[bytes],
    failed: bool | None = None,
    rules: Matcher | None = None,
    pins: Mapping[str, str] = {},
    good: frozenset[bytes] = frozenset(),
) -> Explanation:
    """The causes of a failure, best first. `failed` is how the command ended, if known; `pins` are a recipe's.

    Lines of `good`, those of earlier successes, are no causes.
    """
    rules = rules or matcher()
    contents = scan(log, rules, good)
    if failed is False or (failed is None and _succeeded(contents, rules)):
        return Explanation(True, [])
    causes = _causes(contents, rules)
    if not causes and (last := [*contents.complaints, contents.tail][0]) is not None:
        causes = [_unexplained(last, rules)]
    if not causes:
        return Explanation(False, [])
    neighbours = {cause.line: rules.index.nearest(cause.text) for cause in causes}
    named = {*pins, *(version.name for version in contents.versions)}
    causes = [_with_history(_with_status(cause, rules), pins, named) for cause in causes]
    causes = [_measured(cause, rules, neighbours[cause.line]) for cause in causes]
    first, nearest = causes[0], neighbours[causes[0].line]
    unknown = failed is None and not any(cause.is_known for cause in causes) and "failure" not in contents.signs
    return Explanation(
        None if unknown else False,
        causes,
        family=_family(first, rules, nearest),
        seen=contents.versions,
        unfit=unfit(contents.versions, pins),
        advice=advice(first.context, first.line),
        thread=next((each for each in nearest[:_VOTES] if each.source and each.similarity >= _THREAD), None),
        query=query(first.text),
        new=contents.new if not first.is_known else None,
    )


def _measured(cause: Cause, rules: Matcher, nearest: list[Neighbour]) -> Cause:
    """The cause with the confidence of its class: its kind, and whether the word index gives the line the same rule."""
    opinion = "differs"
    if cause.text.startswith(_OWN):
        opinion = "near"
    elif nearest and nearest[0].rule == cause.rule:
        opinion = "near" if nearest[0].similarity >= _NEAR else "agrees"
    right, count = rules.measured[cause.kind][opinion]
    return cause._replace(confidence=right / count if count else 0.0, measured_on=count)


def _family(cause: Cause, rules: Matcher, nearest: list[Neighbour]) -> str:
    """The family of the cause's rule; of a line that no rule knows, that of the most similar lines."""
    if cause.is_known and cause.rule in rules.rules:
        return rules.rules[cause.rule].family or ""
    votes: Counter[str] = Counter()
    for each in nearest[:_VOTES]:
        if family := rules.rules[each.rule].family:
            votes[family] += each.similarity  # type: ignore[assignment]
    return votes.most_common(1)[0][0] if votes else ""


def _with_status(cause: Cause, rules: Matcher) -> Cause:
    """The cause; where it only quotes a status code, with what the code means."""
    rule = rules.rules.get(cause.rule)
    if rule is not None and rule.kind in ("exact", "symptom"):
        return cause
    status = rules.status(cause.text) or rules.status(cause.cause)
    return cause._replace(cause=f"{cause.cause}; {status[0]} means: {status[1]}") if status else cause


def _with_history(cause: Cause, pins: Mapping[str, str], named: set[str]) -> Cause:
    """The cause; where a public name is missing, with the releases that have it and the pin that helps."""
    words = {word for _, text in cause.context for word in _WORDS.findall(text)}
    span = of_message(cause.text, named | words)
    if span is None:
        return cause
    version = pins.get(span.package, "")
    change = {"op": "replace", "path": f"/variants/*/pins/{span.package}", "value": span.nearest(version)}
    sentence = f"{cause.cause}; {span}"
    return cause._replace(cause=sentence, remedy=span.remedy(version), recipe_change=[change])


def _succeeded(scanned: Scan, rules: Matcher) -> bool:
    if any(rules.rules[name].silent for name in scanned.rules):
        return False
    hits = [(rules.rules[name], hit) for name, hit in scanned.rules.items() if hit.excused != hit.last]
    fatal = [
        hit.last
        for rule, hit in hits
        if not rule.survivable
        and not WARNING.search(hit.text)
        and not _LEVEL_W.search(hit.text)
        and scanned.lines - hit.last < _LONG_AFTER
        and not _worked_after(scanned, hit.last)
    ]
    failure = max([scanned.signs.get("failure", 0), *fatal])
    success = scanned.signs.get("success", 0)
    if not failure:
        success = max(success, scanned.signs.get("progress", 0))
        # Errors of an unknown kind, and those that tools survive, count if the log ends soon after them.
        words = [hit.line for hit in scanned.complaints if scanned.lines - hit.line < LAST_WORDS]
        last = max([scanned.signs.get("error", 0), *words, *(hit.last for _, hit in hits)])
        went_on = max(success, scanned.went_on) > last or _worked_after(scanned, last)
        return last == 0 or went_on or scanned.lines - last > _AT_END
    last = max(failure, scanned.signs.get("error", 0))
    # A program may catch and log an exception.
    only_raised = scanned.signs.get("failure") == scanned.signs.get("traceback")
    return success > last or (only_raised and _worked_after(scanned, last))


def _worked_after(scanned: Scan, line: int) -> bool:
    return sum(result > line for result in scanned.results) >= _RESULTS


def _causes(scanned: Scan, rules: Matcher) -> list[Cause]:
    hits = [(rule, scanned.rules[name]) for name, rule in rules.rules.items() if name in scanned.rules]
    ranked = [(_rank(rule, hit, hits, scanned), hit.line, rule, hit) for rule, hit in hits]
    ranked.sort(key=lambda entry: (_CLAIMS.index(entry[2].kind), entry[0], -entry[3].length))
    best: dict[int, tuple[int, int, LogRule, Hit]] = {}
    for entry in ranked:
        best.setdefault(entry[1], entry)  # of several rules that know a line: the most exact kind, the longest match
    ordered = [(rank, line, _cause(rule, hit, rank)) for rank, line, rule, hit in best.values()]
    unknown = [hit for hit in scanned.errors if hit.line not in best]
    unknown.sort(key=lambda hit: hit.excused == hit.last)
    if raised := [hit for hit in unknown if "class" in hit.values]:
        ordered.append((KINDS.index("wording"), raised[0].line, _raised(rules, *raised[:2])))
    if not unknown and all(rank == KINDS.index("symptom") for rank, _, _ in ordered):
        unknown = [hit for hit in scanned.complaints if hit.line not in best]
    least = 0  # of errors that no rule knows the first stands first
    for hit in [hit for hit in unknown[:_UNKNOWN] if hit not in raised[:2]]:
        said = _unexplained(hit, rules)
        kind = rules.rules[said.rule].kind if said.rule in rules.rules else "unexplained"
        if kind == "meaning" and raised and 0 < raised[0].line - said.line < NEAR:
            kind = "wording"  # what a program says just before its exception comes first
        least = max(least, KINDS.index(kind))
        ordered.append((least, said.line, said))
    return [cause for _, _, cause in sorted(ordered, key=lambda entry: entry[:2])][:_MOST]


def _rank(rule: LogRule, hit: Hit, hits: list[tuple[LogRule, Hit]], scanned: Scan) -> int:
    """The position in `KINDS`. What was survived ranks below what came after it."""
    rank = KINDS.index(rule.kind)
    if rule.silent:
        return rank
    end = max(scanned.signs.get("failure", 0), scanned.signs.get("error", 0)) or scanned.lines
    later = [
        other_rule.kind
        for other_rule, other in hits
        if other.line > hit.last
        and other.excused != other.last
        and not other_rule.survivable
        and other_rule.kind not in ("wording", "symptom")
    ]
    sure = bool({"exact", "likely"} & {*later})
    overtaken = sure and (rule.survivable or hit.excused == hit.last)
    long_ago = (
        rule.survivable or hit.excused == hit.last
    ) and end - hit.last > NEAR  # lines before the log ends, or says that it failed
    after = bool(later) or any(error.line > hit.last for error in scanned.errors)
    warned = after and warns(rule, hit.text)
    survived = overtaken or long_ago or warned
    stepped_over = rule.kind != "symptom" and scanned.signs.get("success", 0) > hit.last and not _beside(hits, scanned)
    return KINDS.index("symptom") if survived or stepped_over else rank


def _beside(hits: list[tuple[LogRule, Hit]], scanned: Scan) -> bool:
    """Whether the last success was that of a part beside what failed: only the failure itself follows it."""
    success = scanned.signs.get("success", 0)
    errors = [hit.last for rule, hit in hits if rule.kind != "symptom"] + [hit.line for hit in scanned.errors]
    return scanned.signs.get("failure", 0) > success >= max(errors, default=0)


def _cause(rule: LogRule, hit: Hit, rank: int) -> Cause:
    values = {**hit.values, **implied_pins(hit.values), **packages(hit.values)}
    if symbol := hit.values.get("symbol"):
        values["demangled"] = demangled(symbol)
    change = [
        {"op": c.op, "path": c.path, "value": filled(c.value, values) if isinstance(c.value, str) else c.value}
        for c in rule.change
        if "..." not in filled(str(c.value), values)
    ]
    cause, remedy = _sentence(rule, values, hit), filled(rule.remedy, values)
    return Cause(rule.id, KINDS[rank], hit.line, hit.text, cause, remedy, change, hit.context)


def _sentence(rule: LogRule, values: dict[str, str], hit: Hit) -> str:
    """The rule's cause; where it holds nothing that was captured, with the log's own words."""
    missing = {name: _MISSING for name in FIELD.findall(rule.cause) if not values.get(name)}
    cause = _LEFT_OPEN.sub("", filled(rule.cause, {**values, **missing})).replace(_MISSING, "...")
    if rule.kind == "symptom":
        return cause
    if "{" not in rule.cause or missing:
        cause = f'{cause} ("{shortened(hit.text, _QUOTED)}")'
    why = _reason(hit)
    if why and why not in cause:
        return f"{cause}; the next line: {why}"
    hint = _hint(hit)
    return f"{cause}; its hint: {hint}" if hint and hint not in cause and rule.kind != "exact" else cause


def _reason(hit: Hit) -> str:
    """What a tool says below about its error; empty if it says no more."""
    below = [unstamped(text) for line, text in hit.context if line > hit.line]
    below = [text for text in below if text]
    following = below[0] if below else ""
    chain = [match["why"] for match in takewhile(bool, map(_BELOW.match, below)) if match]
    if chain:  # each line gives the reason of the one before
        return shortened(chain[-1], _QUOTED)
    announced = hit.text.endswith(":") and not hit.text.endswith("(most recent call last):")
    announced = announced or bool(_CLASS.fullmatch(hit.text))
    return shortened(following.lstrip("-*• "), _QUOTED) if announced else ""


def _hint(hit: Hit) -> str:
    """What a tool advises, or found instead, on the lines below its error."""
    hints = [match["why"] for line, text in hit.context if line > hit.line and (match := _HINT.match(unstamped(text)))]
    return shortened(hints[0], 2 * _QUOTED) if hints else ""


def _raised(rules: Matcher, hit: Hit, chained: Hit | None = None) -> Cause:
    """The exception that ended a Python program, in its own words."""
    value = hit.values
    said = [_exception(value, rules)]
    if "file" in value:
        own = value.get("own_file") not in (None, value["file"])
        said.append(f"({_frame(value)}, called from {_frame(value, 'own_')})" if own else f"({_frame(value)})")
    if chained is not None and chained.text != hit.text:
        said.append("and then " + _exception(chained.values, rules))
    cause, remedy = "Python raised " + " ".join(said), _LOOK_UP
    package = _PACKAGE.search(value.get("file", ""))
    if package and value["class"] in _CODE_FAULT:
        name = package["name"]
        cause = f"{cause}, inside of {name}: perhaps its version does not fit the code or package that calls it"
        remedy = f"pip show {name}; install its release of the time of the code, or the one that the project names"
    return Cause("python-exception", "wording", hit.line, hit.text, cause, remedy, [], hit.context)


def _frame(values: dict[str, str], which: str = "") -> str:
    code = values.get(f"{which}code")
    return f"{values[f'{which}file']}, line {values[f'{which}row']}" + (f": {code}" if code else "")


def _exception(values: dict[str, str], rules: Matcher) -> str:
    meaning = _MEANING.get(values["class"])
    if values["class"] in _ANY_FAULT and (usual := _usual_words(values.get("what", ""), rules)):
        meaning = usual[0].cause.partition(":")[0]
    said = values["class"] + (f", {meaning}" if meaning else "")
    return f"{said}: {values['what']}" if "what" in values else said


def _unexplained(hit: Hit, rules: Matcher) -> Cause:
    """An error that no rule knows: what its usual words mean, where it has any."""
    said = _LEVEL.sub("", hit.text) or hit.text
    why = _reason(hit)
    if usual := _usual_words(f"{said} {why}" if why else said, rules):
        rule, values = usual
        return _cause(rule, replace(hit, values=values), KINDS.index(rule.kind))
    cause = f"{_UNEXPLAINED}: {hit.text}" + (f" {why}" if why else "")
    return Cause("unexplained", "unexplained", hit.line, hit.text, cause, _LOOK, [], hit.context)


def _usual_words(text: str, rules: Matcher) -> tuple[LogRule, dict[str, str]] | None:
    """The rule that knows the usual words of an error in a text, and what it captures."""
    line = b"Error: " + text.encode()
    for number in rules.search(line):
        rule = rules.owners[number]
        if isinstance(rule, LogRule) and rule.kind in ("wording", "meaning"):
            return rule, captured(rules.patterns[number], line)
    return None
