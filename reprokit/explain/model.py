"""What a rule says, and what an explanation is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, get_args

from pydantic import Field, field_validator, model_validator

from reprokit.explain.literals import literals
from reprokit.explain.versions import SeenVersion
from reprokit.untrusted.model import FrozenModel
from reprokit.untrusted.patterns import compiled

# What went wrong, in words that every user knows; `code` is a fault of the program itself.
Family = Literal["missing", "version", "memory", "disk", "network", "privilege", "device", "option", "launcher", "code"]
# How exactly a cause is known, best first. `wording` knows the usual words of errors, but not the program; `meaning`
# says what those words mean in a line that nothing else knows, and finds no line. `unexplained` is the first error that
# no rule knows; a symptom follows from something else.
Kind = Literal["exact", "likely", "general", "wording", "meaning", "unexplained", "symptom"]
KINDS: tuple[Kind, ...] = get_args(Kind)
# An answer is sure if at least so many of its class were right.
_SURE = 0.95
# A value in the text of a rule.
FIELD = re.compile(r"\{([a-z_][a-z0-9_]*)\}")
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
    family: Family | None = Field(default=None, description="what kind of thing went wrong")
    survivable: bool = Field(default=False, description="true: tools retry or go on, so a log of a success may have it")
    silent: bool = Field(default=False, description="true: no error follows it, and a success after it does not count")
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
        for name in FIELD.findall(" ".join(texts)):
            if name not in captured | ADDED:
                raise ValueError(f"{{{name}}} is captured by no pattern")
        return self


class Signs(FrozenModel):
    """Lines that are no cause but say how a command went."""

    success: list[str] = Field(description="the command, or its last step, succeeded")
    progress: list[str] = Field(description="a part succeeded, perhaps beside others that failed")
    step: list[str] = Field(description="a step begins that only runs if all steps before it succeeded")
    failure: list[str] = Field(description="the command failed; the cause is elsewhere")
    traceback: list[str] = Field(description="a Python traceback begins; the exception at its end is an error")
    error: list[str] = Field(description="an error of an unknown kind")
    survived: list[str] = Field(description="the tool goes on, or a test passed: what failed just before ended nothing")
    harmless: list[str] = Field(description="looks like an error and is none")

    @field_validator("success", "progress", "step", "failure", "traceback", "error", "survived")
    @classmethod
    def _fixed_texts(cls, value: list[str]) -> list[str]:
        return _searchable(value)


class Cause(NamedTuple):
    """One cause. `line` counts from 1; `context` are the lines around it with their numbers.

    Of `measured_on` measured causes of its class (`rules/measured.yaml`) the share `confidence` was right.
    """

    rule: str
    kind: Kind
    line: int
    text: str
    cause: str
    remedy: str
    recipe_change: list[dict[str, Any]]
    context: list[tuple[int, str]]
    confidence: float = 0.0
    measured_on: int = 0

    @property
    def sure(self) -> bool:
        return self.confidence >= _SURE

    @property
    def is_known(self) -> bool:
        """Whether a rule knows this failure, and not only the usual words of errors."""
        return self.kind in ("exact", "likely", "general")

    @property
    def sentence(self) -> str:
        """The cause, as sure as it is."""
        return self.cause if self.sure or not self.is_known else f"perhaps {self.cause}"

    def as_json(self) -> dict[str, Any]:
        return {key: value for key, value in self._asdict().items() if key != "context"}


class Neighbour(NamedTuple):
    """An explained line: its rule, where it was met ("" if that has no address), and its similarity from 0 to 1."""

    rule: str
    source: str
    similarity: float


class Explanation(NamedTuple):
    """Causes, the likeliest first; none for the log of a success.

    `success` is None if a line reads like an error, but neither a rule nor another sign shows that something failed.
    `seen` are versions that the log names, `unfit` what does not fit among them; `advice` are
    sentences of the log with their lines; `thread` is the most similar explained line; `query` is what to search for.
    `new` is the first line that no earlier success had, if no rule knows the failure.
    """

    success: bool | None
    causes: list[Cause]
    family: str = ""
    seen: Sequence[SeenVersion] = ()
    unfit: Sequence[str] = ()
    advice: Sequence[tuple[int, str]] = ()
    thread: Neighbour | None = None
    query: str = ""
    new: tuple[int, str] | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            **self._asdict(),
            "causes": [cause.as_json() for cause in self.causes],
            "seen": [version._asdict() for version in self.seen],
            "advice": [{"line": line, "text": text} for line, text in self.advice],
            "new": {"line": self.new[0], "text": self.new[1]} if self.new else None,
            "thread": self.thread._asdict() if self.thread else None,
        }


def filled(text: str, values: dict[str, str]) -> str:
    """`text` with each `{name}` replaced by its value; `...` for one that was not captured."""
    return FIELD.sub(lambda match: values.get(match[1]) or "...", text)
