"""YAML with positions, so that an error can name its line.

Stricter than YAML, because recipes come from strangers: no aliases (a small file could become huge), no duplicate keys,
no tags, no deep nesting.
"""

from __future__ import annotations

import json
from typing import Any

import yaml

from reprokit.errors import UsageError
from reprokit.untrusted.limits import VALUES

Path = tuple[str | int, ...]
# The C parser reads the files of facts in 20 ms, the Python one in 600 ms.
FastLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DEEPEST = 20
_LONGEST_NUMBER = 100
_TAG = "tag:yaml.org,2002:"


class Document:
    """`data` are plain values; `line(path)` is the 1-based line of a value, or of its nearest parent."""

    def __init__(self, data: Any, lines: dict[Path, int], texts: dict[Path, str], where: str) -> None:
        self.data = data
        self.where = where
        self._lines = lines
        self._texts = texts

    def line(self, path: Path) -> int:
        while path not in self._lines and path:
            path = path[:-1]
        return self._lines.get(path, 1)

    def text(self, path: Path) -> str | None:
        """The scalar at `path` as written, if it has no quotes."""
        return self._texts.get(path)


def read(text: str, where: str) -> Document:
    """Read one YAML document. Raises UsageError naming `where:line`."""
    try:
        return _YamlReader(text, where).document()
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        problem = " ".join(p for p in (error.context, error.problem) if p)
        raise UsageError(f"not valid YAML: {problem}", f"{where}:{line}", "check indentation and quotes") from None
    except (yaml.YAMLError, ValueError) as error:
        raise UsageError(f"not valid YAML: {error}", where) from None


def scalar(value: str | int | float | bool) -> str:
    """A value as one line of YAML, which `read` reads back."""
    # JSON quotes a text that reads like a number. But YAML has no pairs of surrogates.
    if isinstance(value, str):
        escaped = (json.dumps(char)[1:-1] if char <= "\uffff" else f"\\U{ord(char):08x}" for char in value)
        return f'"{"".join(escaped)}"'
    # YAML 1.1 reads 1e-07 as a text: its numbers have a point.
    text = json.dumps(value)
    return text.replace("e", ".0e") if isinstance(value, float) and "." not in text else text


class _YamlReader:
    """Makes the values from the parser's events, which need little memory for any text."""

    def __init__(self, text: str, where: str) -> None:
        self._loader = FastLoader(text)
        self._where = where
        self._lines: dict[Path, int] = {}
        self._texts: dict[Path, str] = {}
        self._events = 0

    def document(self) -> Document:
        try:
            self._next()  # the start of the stream
            started = isinstance(self._next(), yaml.DocumentStartEvent)
            data = self._value(self._next(), ()) if started else None
            if started and self._next() and not isinstance(after := self._next(), yaml.StreamEndEvent):
                raise self._error("a second document begins", after, "keep one of the two")
        finally:
            self._loader.dispose()
        return Document(data, self._lines, self._texts, self._where)

    def _next(self) -> Any:
        self._events += 1
        if not self._events % 1000:
            VALUES.check(self._events, "values in a YAML document", self._where)
        event = self._loader.get_event()
        if isinstance(event, yaml.AliasEvent):
            hint = "write the value out, or use `extends` between variants"
            raise self._error(f"the alias *{event.anchor} is not allowed", event, hint)
        return event

    def _error(self, problem: str, event: Any, hint: str = "") -> UsageError:
        return UsageError(problem, f"{self._where}:{_line_of(event)}", hint)

    def _value(self, event: Any, path: Path) -> Any:
        self._lines.setdefault(path, _line_of(event))  # keep the line of its key
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event, path)
        if len(path) == _DEEPEST:
            raise self._error("nested too deeply", event)
        if isinstance(event, yaml.SequenceStartEvent):
            values: list[Any] = []
            while not isinstance(event := self._next(), yaml.SequenceEndEvent):
                values.append(self._value(event, (*path, len(values))))
            return values
        data: dict[str, Any] = {}
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                raise self._error("a key must be a plain word", event)
            key = event.value
            if key in data:
                raise self._error(f"{key!r} is written twice", event, "keep one of the two")
            below = (*path, key)
            self._lines[below] = _line_of(event)
            data[key] = self._value(self._next(), below)
        return data

    def _scalar(self, event: Any, path: Path) -> Any:
        text, tag = event.value, event.tag
        if tag in (None, "!"):
            tag = self._loader.resolve(yaml.ScalarNode, text, event.implicit)
        kind = tag.removeprefix(_TAG)
        if kind in ("str", "timestamp"):
            if event.style is None:
                self._texts[path] = text
            return text
        if kind not in ("int", "float", "bool", "null"):
            raise self._error(f"the tag {tag} is not allowed", event)
        # The time to parse a number in base 60 grows with the square of its length.
        if len(text) > _LONGEST_NUMBER:
            raise self._error(f"a number with {len(text)} characters is too long", event)
        self._texts[path] = text
        try:
            return self._loader.construct_object(yaml.ScalarNode(tag, text))
        except (LookupError, ValueError):  # `!!int ""`
            raise self._error(f"{text[:40]!r} is not a value of the type {kind}", event) from None


def _line_of(event: Any) -> int:
    return int(event.start_mark.line) + 1
