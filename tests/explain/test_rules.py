"""Rules: the fixed text of a pattern, where it is freed, and those of users, refused with the line that is wrong."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

from reprokit.errors import UsageError
from reprokit.explain.judge import explain
from reprokit.explain.literals import FixedText, literals
from reprokit.explain.load import Matcher, bundled, compiled_rules, user_folder, user_rules
from reprokit.explain.loose import escaped, marked, spelt
from reprokit.explain.model import LogRule, Signs
from reprokit.recipe.model import Variant
from reprokit.untrusted.patterns import compiled

GOOD = """\
- id: site-licence
  patterns: ['licence server (?P<host>\\S+) does not answer']
  cause: "the licence server {host} is down"
  remedy: "ask the site"
  seen: "our site"
  example: "licence server l1 does not answer"
"""


def written(folder: Path, text: str) -> Path:
    (folder / "site.yaml").write_text(text)
    return folder


@pytest.mark.slow
def test_a_users_rule_is_used_and_replaces_one_of_the_same_id(tmp_path: Path):
    own = user_rules(written(tmp_path, GOOD + GOOD.replace("site-licence", "disk-full").replace("licence s", "s")))
    matcher = Matcher(compiled_rules(), own)
    (cause,) = explain(io.BytesIO(b"licence server l1 does not answer\n"), rules=matcher).causes
    assert (cause.rule, cause.cause) == ("site-licence", "the licence server l1 is down")
    assert matcher.rules["disk-full"].remedy == "ask the site"


def test_the_folder_stands_beside_the_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("REPROKIT_CONFIG", str(tmp_path / "config.yaml"))
    assert user_folder() == tmp_path / "rules" and user_rules(user_folder()) == []


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("licence server (?P<host>", "licence server (?P<host>(", r"rule site-licence: patterns: missing"),
        (r"'licence server (?P<host>\S+) does not answer'", r"'\d+'", "no fixed text of 3 characters"),
        ("{host}", "{machine}", r"\{machine\} is captured by no pattern"),
        ("  seen:", "  seem:", "rule site-licence: seen: Field required|seem"),
        ("site-licence", "Site Licence", "rule Site Licence: id"),
        ("- id", "id", "rules are a YAML list|not valid YAML"),
        ("  cause", " cause", "not valid YAML"),
        ("  cause: ", "  cause: *x ", "alias|not valid YAML"),
    ],
)
def test_a_wrong_rule_is_named_with_its_place(tmp_path: Path, old: str, new: str, message: str):
    with pytest.raises(UsageError, match=message) as error:
        user_rules(written(tmp_path, GOOD.replace(old, new)))
    assert str(tmp_path / "site.yaml") in error.value.where


def test_the_line_of_a_wrong_field_is_named(tmp_path: Path):
    with pytest.raises(UsageError) as error:
        user_rules(written(tmp_path, GOOD + GOOD.replace("id: site-licence", "id: b\n  kind: certain")))
    assert error.value.where.endswith("site.yaml:8")


def test_bundled_rules_have_unique_ids_sources_and_changes_of_known_fields():
    rules = bundled()[0]
    assert len({rule.id for rule in rules}) == len(rules) >= 150
    assert [LogRule.model_validate(rule.model_dump()) for rule in rules] == rules
    Signs.model_validate(bundled()[1].model_dump())
    assert [rule.id for rule in rules if rule.family is None] == []
    assert all(rule.seen.startswith(("https://", "pitfalls: ", "provoked: ", "message of ")) for rule in rules)
    paths = {change.path for rule in rules for change in rule.change}
    assert all(path.startswith("/variants/*/") for path in paths)
    assert {path.split("/")[3] for path in paths} <= set(Variant.model_fields)


LITERALS = {
    "no space left": ["no space left"],
    r"fatal error: (?P<h>\S+): No such file": [": No such file"],
    r"^E: \S+": ["E: "],
    "first|second": ["first", "second"],
    r"a(?:b|c)defg": ["defg"],
    r"error: (?P<what>no such file|no folder) at": ["no such file", "no folder"],
    r"error: (?:fatal: )?(?P<what>no such file|x)": ["error: "],
    r"colours? wrong": ["colour"],
    r"\[exit [1-9]\d* after ": [" after "],
    r"x{3}long enough": ["long enough"],
    r"[^]|]abcd": ["abcd"],
    r"ab+cd\.efg": ["cd.efg"],
    r"x[[:digit:]]code: y": ["code: y"],
    r"[]abc]wxyz": ["wxyz"],
    r"[^]]wxyz": ["wxyz"],
    r"\x41bcd|\x{e9}fgh": ["bcd", "fgh"],
    r"ab\pNcde|ab\p{Greek}cdef": ["cde", "cdef"],
    r"ab\101cde": ["cde"],
    "foo{": ["foo"],
    "fooo{2}": ["foo"],
    r"^(?:\S+ )?(?:[\w.]*Error: |FATAL:? )(?P<what>.+)": ["Error: ", "FATAL"],
}


@pytest.mark.parametrize("pattern", LITERALS)
def test_the_longest_fixed_text_of_each_alternative(pattern: str):
    assert [literal.text for literal in literals(pattern)] == LITERALS[pattern]


def test_case_may_be_folded():
    assert literals("(?i)Out Of Memory") == [FixedText("Out Of Memory", True)]


@pytest.mark.parametrize(
    ("message", "patterns"),
    [
        ("no fixed text", ["", "a.", r"\d+", "(?:er|failure)", "(?:error|failure)?", "long enough|ab"]),
        (r"\(\?i\)", ["(?is)some code", "ab(?i)cdef", "(?i:abc)def|ghi", r"\Qa.b(c\E", "(?i)größe"]),
    ],
)
def test_a_pattern_without_fixed_text_is_refused(message: str, patterns: list[str]):
    for pattern in patterns:
        with pytest.raises(ValueError, match=message):
            literals(pattern)


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
                    assert any(re.search(escaped(text), line) for text in literals(marked(pattern))), (rule.id, pattern)
