"""Changes to a recipe's file, whose comments and order stay."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq

from reprokit.errors import UsageError
from reprokit.untrusted.terminal import escaped

_LONGEST = 200


def changed(text: str, variant: str, changes: Iterable[Mapping[str, Any]], why: str = "") -> str:
    """A recipe with changes as `reprokit explain --json` gives them: `op`, `path` (`*` is the variant) and `value`.

    Adding to a list that has the value already changes nothing. `why` becomes a comment of each changed value. Raises
    UsageError for a path that the recipe lacks.
    """
    data = _yaml().load(text)
    for change in changes:
        parts = [variant if part == "*" else part for part in str(change["path"]).strip("/").split("/")]
        _apply(data, parts, str(change["op"]), change.get("value"), comment(why) if why else "")
    return text_of(data)


def text_of(data: CommentedMap) -> str:
    """The YAML of a recipe with its comments."""
    out = io.StringIO()
    _yaml().dump(data, out)
    return out.getvalue()


def comment(text: str) -> str:
    """One line: what a stranger wrote must not end a comment."""
    short = escaped(text.replace("\t", " "))
    return short if len(short) <= _LONGEST else f"{short[: _LONGEST - 1]}…"


def _apply(data: Any, parts: list[str], op: str, value: Any, why: str) -> None:
    place = data
    for part, following in pairwise(parts):
        if isinstance(place, dict) and part not in place and op == "add":
            _put(place, part, CommentedSeq() if following == "-" or following.isdigit() else CommentedMap())
        try:
            place = place[int(part)] if isinstance(place, list) else place[part]
        except (LookupError, ValueError, TypeError):
            raise UsageError(f"the recipe has no {'/'.join(parts)}") from None
    last = parts[-1]
    if isinstance(place, list):
        _apply_to_list(place, last, op, value, why)
    elif not isinstance(place, CommentedMap):
        raise UsageError(f"the recipe has no {'/'.join(parts)}")
    elif op == "add" and isinstance(place.get(last), list) and not isinstance(value, list):
        _apply_to_list(place[last], "-", op, value, why)
    elif op == "remove":
        place.pop(last, None)
    else:
        _put(place, last, value)
        if why:
            place.yaml_add_eol_comment(why, last)


def _put(place: Any, key: str, value: Any) -> None:
    """Set a value. A new key goes before the last one, below which the comments of what follows are."""
    if key in place or not place:
        place[key] = value
    else:
        place.insert(len(place) - 1, key, value)


def _apply_to_list(place: Any, last: str, op: str, value: Any, why: str) -> None:
    inside = last.isdigit() and int(last) < len(place)
    if op == "add" and value not in place:
        index = int(last) if last.isdigit() else len(place)
        place.insert(index, value)
    elif op == "replace" and inside:
        index = int(last)
        place[index] = value
    else:
        if op == "remove" and inside:
            del place[int(last)]
        return
    if why:
        place.yaml_add_eol_comment(why, index)


def _yaml() -> YAML:
    yaml = YAML()
    yaml.width = 110
    yaml.indent(mapping=2, sequence=4, offset=2)
    return yaml
