"""A message is known with another first letter, level, kind of quotes, or behind an unknown tool's prefix."""

from __future__ import annotations

import re

import pytest

from reprokit.explain.judge import explain
from reprokit.explain.literals import literals
from reprokit.explain.load import bundled
from reprokit.explain.loose import escaped, marked, spelt
from reprokit.untrusted.patterns import compiled
from tests.support import logs


@pytest.mark.parametrize(
    ("pattern", "freed"),
    [
        ("Failed to start", "[Ff]ailed to start"),
        ("^error: no such", "^(?:[Ee]rror|ERROR): [Nn]o such"),
        (r"\w+Error: not here", r"\w+Error: [Nn]ot here"),
        (r"(?P<what>Cannot open '(?P<p>[^']+)')", "(?P<what>[Cc]annot open ['\"`](?P<p>[^']+)['\"`])"),
        ("lib['.-]x is gone", "lib['\"`'.-]x is gone"),
        (r".*container (?P<n>\S+) is gone", r".*[Cc]ontainer (?P<n>\S+) is gone"),
        ("(?i)Failed 'x'", "(?i)Failed 'x'"),
        ("NVRM: GPU lost", "NVRM: GPU lost"),
    ],
)
def test_a_pattern_is_freed_where_versions_of_a_message_differ(pattern: str, freed: str):
    assert spelt(marked(pattern)) == freed


@pytest.mark.slow
def test_freed_patterns_are_valid_and_find_what_the_written_ones_find():
    rules, signs = bundled()
    for pattern in {p for rule in rules for p in rule.patterns} | {p for _, patterns in signs for p in patterns}:
        freed = compiled(spelt(marked(pattern)))
        assert freed.groupindex == compiled(pattern).groupindex, pattern
    for rule in rules:
        for line in rule.example.split("\n"):
            for pattern in rule.patterns:
                if compiled(pattern).search(line):
                    assert compiled(spelt(marked(pattern))).search(line), (rule.id, pattern)
                    found = [re.search(escaped(text), line) for text in literals(marked(pattern))]
                    assert any(found), (rule.id, pattern)


KNOWN = {
    "Error response from daemon: No such container: db": "docker-no-such-container",
    "cannot create directory '/opt/x': Permission denied": "permission-denied-path",
}


@pytest.mark.parametrize(("line", "rule"), KNOWN.items())
def test_capitals_levels_and_quotes_change_no_answer(line: str, rule: str):
    for form in (line, line[0].swapcase() + line[1:], line.replace("'", '"'), line.replace(": No", ": no")):
        assert explain(logs.stream(f"{form}\n")).causes[0].rule == rule, form


@pytest.mark.parametrize(
    "prefix", ["node7: ", "[rank: 0] ", "[stderr] ", "db  | ", "build/run\t[out]: ", "[10:04:05] "]
)
def test_the_prefix_of_an_unknown_tool_hides_no_cause(prefix: str):
    log = "Found conflicts!\nPackagesNotFoundError: The following packages are not available from current channels:\n\n"
    log += "  - odd-package=1.2\n\nCurrent channels:\n"
    plain = explain(logs.stream(log)).causes[0]
    behind = explain(logs.stream("".join(f"{prefix}{line}\n" for line in log.splitlines()))).causes[0]
    assert (behind.rule, behind.line) == (plain.rule, plain.line)
    assert "do not have odd-package=1.2" in behind.cause
