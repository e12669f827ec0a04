"""YAML with positions, so that an error can name its line.

Stricter than YAML, because recipes come from strangers: no aliases (a small file could become huge), no duplicate keys,
no tags, no deep nesting.
"""

from __future__ import annotations

from typing import Any

import yaml

from reprokit.errors import UsageError
from reprokit.untrusted.limits import VALUES

Path = tuple[str | int, ...]
# The C loader reads the files of facts in 40 ms, the Python one in 700 ms.
FastLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
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
        loader = FastLoader(text)
        try:
            _refuse_bombs(text, where)
            node = loader.get_single_node()
            lines: dict[Path, int] = {}
            texts: dict[Path, str] = {}
            data = _value(node, (), lines, texts, loader, where) if node is not None else None
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        problem = " ".join(p for p in (error.context, error.problem) if p)
        raise UsageError(f"not valid YAML: {problem}", f"{where}:{line}", "check indentation and quotes") from None
    except (yaml.YAMLError, ValueError) as error:
        raise UsageError(f"not valid YAML: {error}", where) from None
    return Document(data, lines, texts, where)


def _refuse_bombs(text: str, where: str) -> None:
    """Refuse aliases, deep nesting and too many values while they are still events, which need little memory."""
    depth = 0
    for count, event in enumerate(yaml.parse(text, Loader=FastLoader)):
        line = event.start_mark.line + 1 if event.start_mark else 1
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if isinstance(event, yaml.AliasEvent):
            hint = "write the value out, or use `extends` between variants"
            raise UsageError(f"the alias *{event.anchor} is not allowed", f"{where}:{line}", hint)
        if depth > 20:
            raise UsageError("nested too deeply", f"{where}:{line}")
        if not count % 1000:
            VALUES.check(count, "values in a YAML document", where)


def _value(node: Any, path: Path, lines: dict, texts: dict, loader: Any, where: str) -> Any:
    lines[path] = node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        data: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                raise UsageError("a key must be a plain word", f"{where}:{line}")
            key = key_node.value
            if key in data:
                raise UsageError(f"{key!r} is written twice", f"{where}:{line}", "keep one of the two")
            below = (*path, key)
            data[key] = _value(value_node, below, lines, texts, loader, where)
            lines[below] = line
        return data
    if isinstance(node, yaml.SequenceNode):
        return [_value(n, (*path, i), lines, texts, loader, where) for i, n in enumerate(node.value)]
    kind = node.tag.removeprefix(_TAG)
    if kind not in ("str", "int", "float", "bool", "null"):
        if kind == "timestamp":
            kind = "str"
        else:
            raise UsageError(f"the tag {node.tag} is not allowed", f"{where}:{lines[path]}")
    # The time to parse a number in base 60 grows with the square of its length.
    if kind != "str" and len(node.value) > _LONGEST_NUMBER:
        raise UsageError(f"a number with {len(node.value)} characters is too long", f"{where}:{lines[path]}")
    if node.style is None or kind != "str":
        texts[path] = node.value
    if kind == "str":
        return node.value
    try:
        return loader.construct_object(node)
    except (LookupError, ValueError):  # `!!int ""`
        problem = f"{node.value[:40]!r} is not a value of the type {kind}"
        raise UsageError(problem, f"{where}:{lines[path]}") from None
