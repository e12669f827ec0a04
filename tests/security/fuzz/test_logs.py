"""Logs and rules of strangers: no crash, no control characters, bounded time and memory."""

from __future__ import annotations

import io
import json
from pathlib import Path

from hypothesis import given

from reprokit.errors import UsageError
from reprokit.explain.judge import explain
from reprokit.explain.literals import literals
from reprokit.explain.load import user_rules
from tests.support import logs
from tests.support.fuzzing import Watch, fuzzed, lines, spoilt

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
    watch(lambda: told(raw))


def told(raw: bytes) -> None:
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
