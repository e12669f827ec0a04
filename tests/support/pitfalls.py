"""The failures met by hand while the target papers were reproduced, each with what covers it: docs/pitfalls.md."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field

_FILE = Path(__file__).parent / "pitfalls.yaml"
Mechanism = Literal["check", "explain", "fetch", "verify", "run", "doctor", "ext"]
_HEAD = """\
# Pitfalls, and what covers each

Every failure that occurred while the target papers were reproduced by hand. This page is generated from
`tests/support/pitfalls.yaml` by
`.venv/bin/python -m pytest tests/explain/integration/test_pitfalls.py --update-golden`.

| mechanism | what it does |
|---|---|
| check | a compat rule predicts it, before anything is downloaded |
| explain | a log rule names it and the remedy ([explain.md](explain.md)) |
| fetch | a download survives it, or names it |
| verify | an assertion stops the build, or the benchmark, where it happens |
| run | how containers are started, moved and entered prevents it |
| doctor | a look at the host finds it |
| ext | the bundled attention extension or its build prevents it |

| pitfall | how it looked | what covers it |
|---|---|---|
"""


class Pitfall(BaseModel):
    """One failure. `covered` holds the compat rule, the log rule, or the test that shows the mechanism at work."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    system: str
    symptom: str
    cause: str
    remedy: str
    log: str = Field(default="", description="how a log shows it, where `symptom` is no text of a log")
    covered: dict[Mechanism, str] = Field(min_length=1)
    not_by: dict[Mechanism, str] = Field(default={}, description="what does the mechanism's part instead")


def pitfalls() -> list[Pitfall]:
    return [Pitfall.model_validate(entry) for entry in yaml.safe_load(_FILE.read_bytes())]


def page() -> str:
    """docs/pitfalls.md."""
    return _HEAD + "".join(_row(pitfall) for pitfall in pitfalls())


def _row(pitfall: Pitfall) -> str:
    covered = [_link(mechanism, by) for mechanism, by in pitfall.covered.items()]
    covered += [f"not by {mechanism}: {why}" for mechanism, why in pitfall.not_by.items()]
    cells = (f"`{pitfall.id}`", _cell(f"{pitfall.symptom}: {pitfall.cause}"), "<br>".join(covered))
    return f"| {' | '.join(cells)} |\n"


def _link(mechanism: str, by: str) -> str:
    file, _, test = by.partition("::")
    return f"{mechanism}: [{test}](../{file})" if test else f"{mechanism}: rule `{by}`"


def _cell(text: str) -> str:
    """Text that Markdown shows as it is."""
    return "".join(f"\\{c}" if c in "\\`*_[]<>|" else c for c in text)
