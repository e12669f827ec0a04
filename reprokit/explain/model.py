"""What a rule says, and what an explanation is."""

from __future__ import annotations

import re
from typing import Any, Literal, NamedTuple

from pydantic import Field, field_validator, model_validator

from reprokit.explain.literals import literals
from reprokit.untrusted.model import FrozenModel
from reprokit.untrusted.patterns import compiled

# How sure a cause is, by kind. `wording` knows the usual words of errors, but not the program; `meaning` says what
# those words mean in a line that nothing else knows, and finds no line. A symptom follows from something else;
# `unexplained` is the first error that no rule knows.
CONFIDENCE = {
    "exact": 0.95,
    "likely": 0.8,
    "general": 0.6,
    "wording": 0.4,
    "meaning": 0.3,
    "unexplained": 0.2,
    "symptom": 0.1,
}
_FIELD = re.compile(r"\{([a-z_]+)\}")
# Values that the engine adds to those captured.
ADDED = {"demangled", "oldest_cuda", "driver_newest_cuda", "distribution", "apt"}


def _searchable(patterns: list[str]) -> list[str]:
    """The patterns. Raises ValueError for one that RE2 refuses, or that has no fixed text to look for first."""
    for pattern in patterns:
        compiled(pattern)
        literals(pattern)
    return patterns


class Change(FrozenModel):
    """One change to a recipe. `path` is a JSON pointer; `*` stands for the variant that failed."""

    op: Literal["add", "replace", "remove"]
    path: str = Field(pattern=r"^/[a-z_]+(/[A-Za-z0-9_*-]+)*$")
    value: Any = None


class LogRule(FrozenModel):
    """One known failure. Patterns are RE2 and are searched for in single lines; `near` may span lines."""

    id: str = Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")
    patterns: list[str] = Field(min_length=1, description="any of them, in one line; groups (?P<name>...) are captured")
    near: str = Field(default="", description="must match within `lines` lines of the line; may capture too")
    without: str = Field(default="", description="must not match there")
    lines: int = Field(default=6, ge=1, le=40, description="how far `near` and `without` look in both directions")
    kind: Literal["exact", "likely", "general", "wording", "meaning", "symptom"] = "exact"
    survivable: bool = Field(default=False, description="true: tools retry or go on, so a log of a success may have it")
    network: bool = Field(default=False, description="true: a server or the way to it failed, which may pass")
    cause: str = Field(min_length=10, description="one sentence; {name} is replaced by what was captured")
    remedy: str = Field(min_length=5, description="commands, or what to change")
    change: list[Change] = Field(default=[], description="the change to the recipe")
    seen: str = Field(min_length=3, description="where it was met: an address, or `pitfalls: ID`")
    example: str = Field(min_length=5, description="lines of a log that the rule explains")

    @field_validator("patterns")
    @classmethod
    def _patterns(cls, value: list[str]) -> list[str]:
        return _searchable(value)

    @field_validator("near", "without")
    @classmethod
    def _contexts(cls, value: str) -> str:
        if value:
            compiled(value)
        return value

    @model_validator(mode="after")
    def _captured(self) -> LogRule:
        captured = {name for pattern in (*self.patterns, self.near) for name in compiled(pattern or "x").groupindex}
        texts = [self.cause, self.remedy, *(str(change.value) for change in self.change)]
        for name in _FIELD.findall(" ".join(texts)):
            if name not in captured | ADDED:
                raise ValueError(f"{{{name}}} is captured by no pattern")
        return self


class Signs(FrozenModel):
    """Lines that are no cause but say how a command went."""

    success: list[str] = Field(description="the command, or its last step, succeeded")
    progress: list[str] = Field(description="a part succeeded, perhaps beside others that failed")
    failure: list[str] = Field(description="the command failed; the cause is elsewhere")
    traceback: list[str] = Field(description="a Python traceback begins; the exception at its end is an error")
    error: list[str] = Field(description="an error of an unknown kind")
    survived: list[str] = Field(description="the tool goes on, or a test passed: what failed just before ended nothing")
    harmless: list[str] = Field(description="looks like an error and is none")

    @field_validator("success", "progress", "failure", "traceback", "error", "survived")
    @classmethod
    def _fixed_texts(cls, value: list[str]) -> list[str]:
        return _searchable(value)


class Cause(NamedTuple):
    """One cause. `line` counts from 1; `context` are the lines around it with their numbers."""

    rule: str
    line: int
    text: str
    cause: str
    remedy: str
    recipe_change: list[dict[str, Any]]
    confidence: float
    context: list[tuple[int, str]]

    def as_json(self) -> dict[str, Any]:
        return {key: value for key, value in self._asdict().items() if key != "context"}


class Explanation(NamedTuple):
    """Causes, the likeliest first; none for the log of a success."""

    success: bool
    causes: list[Cause]

    def as_json(self) -> dict[str, Any]:
        return {"success": self.success, "causes": [cause.as_json() for cause in self.causes]}


def filled(text: str, values: dict[str, str]) -> str:
    """`text` with each `{name}` replaced by its value; `...` for one that was not captured."""
    return _FIELD.sub(lambda match: values.get(match[1]) or "...", text)
