"""Versions that a log names (Python, CUDA, compilers, driver, system), and which of them do not fit together."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

# By the names of pins, where there is one.
_SEEN = {
    "python": rb"(?i:\bpython[ -]?(?:version:? )?v?)(3\.\d{1,2}(?:\.\d+)?)\b|/python(3\.\d{1,2})/"
    rb"|\bcp3(?P<minor>\d{1,2})-cp3",
    "cuda": rb"(?i:\bcuda(?: toolkit| version|_version)?[:=]? ?v?|/cuda-)(\d{1,2}\.\d)\b|\brelease (\d{1,2}\.\d), V\d"
    rb"|\+cu(?P<digits>\d{3})\b",
    "torch": rb"(?i:\b(?:py)?torch(?: version)?(?:-|==|: | ))v?(\d\.\d{1,2}\.\d)\b",
    "gcc": rb"\bgcc(?:-| version | \([^)]{1,60}\) )(\d{1,2}(?:\.\d+){0,2})\b|\bis GNU (\d{1,2}\.\d+\.\d+)",
    "cmake": rb"(?i:\bcmake version )(\d\.\d+(?:\.\d+)?)|You are running version (\d\.\d+\.\d+)",
    "numpy": rb"(?i:\bnumpy(?:-|==| version:? ))(\d\.\d+(?:\.\d+)?)\b",
    "llvm": rb"(?:\bclang version |/llvm-|\bLLVM version:? )(\d{1,2}(?:\.\d+){0,2})\b",
    "driver": rb"(?i:\bdriver version:? )(\d{3}\.\d{2,3}(?:\.\d{2})?)",
    "distro": rb"\b(Ubuntu \d\d\.\d\d|Debian GNU/Linux \d\d)\b",
    "machine": rb"\b(x86_64|aarch64|ppc64le)\b",
    "glibc": rb"GLIBC_(2\.\d{1,2})' not found",
}
_PATTERN = re.compile(b"|".join(b"(?P<%s>%s)" % (name.encode(), pattern) for name, pattern in _SEEN.items()))
_MOST = 2  # of one name
# Those that the compat tables compare.
_COMPARED = ("python", "cuda", "torch", "gcc", "cmake", "numpy", "llvm")


class SeenVersion(NamedTuple):
    """A version and the first line that names it."""

    name: str
    value: str
    line: int

    def __str__(self) -> str:
        return f"{self.name} {self.value} (line {self.line})"


def versions(text: bytes, line: int) -> list[SeenVersion]:
    """The versions that a text names, at most two of a name; its first line has the number `line`."""
    seen: dict[tuple[str, str], int] = {}
    counted = 0
    for match in _PATTERN.finditer(text):
        name = next(name for name in _SEEN if match[name])
        value = _value(match)
        line += text.count(b"\n", counted, match.start())
        counted = match.start()
        seen.setdefault((name, value), line)
    return first_of_each(SeenVersion(name, value, number) for (name, value), number in seen.items())


def first_of_each(seen: Iterable[SeenVersion]) -> list[SeenVersion]:
    """The first two versions of each name; of 3.8 and 3.8.10 the longer one."""
    chosen: list[SeenVersion] = []
    for each in sorted(seen, key=lambda version: version.line):
        alike = [other for other in chosen if other.name == each.name]
        shorter = [other for other in alike if each.value.startswith(f"{other.value}.")]
        if shorter:
            chosen[chosen.index(shorter[0])] = each
        elif len(alike) < _MOST and not any(f"{other.value}.".startswith(f"{each.value}.") for other in alike):
            chosen.append(each)
    return chosen


def _value(match: re.Match[bytes]) -> str:
    if minor := match["minor"]:
        return f"3.{minor.decode()}"
    if digits := match["digits"]:
        return f"{digits[:2].decode()}.{digits[2:].decode()}"
    return next(text for text in match.groups()[::-1] if text).decode()


def unfit(seen: Iterable[SeenVersion], pins: Mapping[str, str] = {}) -> list[str]:
    """What the compat tables say against these versions, and where they differ from a recipe's pins."""
    values: dict[str, list[SeenVersion]] = {}
    for each in seen:
        values.setdefault(each.name, []).append(each)
    problems = [
        f"the recipe pins {name} {pin}, the log has {' and '.join(map(str, values[name]))}"
        for name, pin in pins.items()
        if name in values and not any(_alike(each.value, pin) for each in values[name])
    ]
    stated = {name: own[0].value for name, own in values.items() if len(own) == 1 and name in _COMPARED}
    if len(stated) < 2:
        return problems
    from reprokit.compat.evaluate import evaluate
    from reprokit.compat.facts import bundled
    from reprokit.compat.model import Stack

    stack = Stack(stated, driver=values["driver"][0].value if len(values.get("driver", ())) == 1 else None)
    for finding in evaluate(bundled(), stack):
        if finding.severity == "error":
            subjects = " and ".join(subject.replace("=", " ", 1) for subject in finding.subjects)
            problems.append(f"{subjects}: {finding.reason}")
    return problems


def _alike(one: str, other: str) -> bool:
    return f"{one}.".startswith(f"{other}.") or f"{other}.".startswith(f"{one}.")
