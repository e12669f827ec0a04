"""Errors of a schema in a YAML file, with file, line, field and the nearest spelling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, get_args

from pydantic import BaseModel

from reprokit.errors import UsageError
from reprokit.recipe import yaml
from reprokit.recipe.spelling import nearest

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

_SHOULD = "Input should be "
_TYPES = ("str", "constrained-str", "int", "float", "bool")
_WORDS = {True: "true or false", False: "true or false", None: "no value"}
_MOST = 1000  # faults, whose texts take a kilobyte each


def explained(
    error: ValidationError,
    document: yaml.Document,
    model: type[BaseModel],
    fields_hint: str,
    origins: Mapping[yaml.Path, yaml.Path] | None = None,
) -> UsageError:
    """The error for the user: the first fault with a hint, the others by line.

    `fields_hint` names the description of the fields of `model`; `origins` maps inherited values to their source.
    """
    if error.error_count() > _MOST:
        return UsageError(f"{error.error_count()} fields are wrong", document.where, fields_hint)
    first, *others = (_fault(e, document, model, fields_hint, origins or {}) for e in _merged(error, document))
    message, where, hint = first
    more = [f"{w}: {m}" for m, w, _ in others[:4]]
    if len(others) > 4:
        more.append(f"and {len(others) - 4} more")
    return UsageError("\n  also ".join([message, *more]), where, hint)


def _merged(error: ValidationError, document: yaml.Document) -> list[ErrorDetails]:
    """The errors; those about the alternative types of one value are merged."""
    faults: dict[tuple[yaml.Path, int], ErrorDetails] = {}
    for number, fault in enumerate(error.errors()):
        key = _document_path(fault["loc"], document.data), 0 if fault["msg"].startswith(_SHOULD) else number
        if key in faults and not key[1]:
            faults[key]["type"] = "union"
            faults[key]["msg"] += f" or {fault['msg'].removeprefix(_SHOULD)}"
        else:
            faults[key] = fault
    return list(faults.values())


def _fault(
    error: ErrorDetails,
    document: yaml.Document,
    model: type[BaseModel],
    fields_hint: str,
    origins: Mapping[yaml.Path, yaml.Path],
) -> tuple[str, str, str]:
    path = _document_path(error["loc"], document.data)
    for length in range(len(path), 0, -1):  # an inherited value is in the parent
        if path[:length] in origins:
            path = (*origins[path[:length]], *path[length:])
            break
    field = ".".join(str(p) for p in path) or "the file"
    where = f"{document.where}:{document.line(path)}"
    kind = error["type"]
    if kind == "extra_forbidden":
        fields = _known_fields(model, path[:-1])
        return f"unknown field {field}{nearest(str(path[-1]), fields)}", where, fields_hint
    if kind == "missing":
        return f"{field} is missing", where, ""
    if kind in ("list_type", "tuple_type"):
        return f"{field} must be a list", where, f"write {path[-1]}: [...]" if path else ""
    written = document.text(path)
    if kind == "string_type" and isinstance(error["input"], bool | None):
        return (
            f"{field} must be text, and YAML reads {written} as {_WORDS[error['input']]}",
            where,
            f'write "{written}"',
        )
    if kind == "string_type" and written is not None:
        became = f", which YAML reads as {error['input']!r}" if str(error["input"]) != written else ", not as text"
        return (
            f"{field} is written {written} without quotes{became}",
            where,
            f'versions are strings: write "{written}"',
        )
    message = error["msg"].removeprefix("Value error, ").replace(" after validation", "")
    if kind == "string_pattern_mismatch":
        message = f"{error['input']!r} has a form or characters that are not allowed here"
    return f"{field}: {message}", where, ""


def _document_path(loc: tuple[Any, ...], data: Any) -> yaml.Path:
    """A pydantic location without the parts that are not keys: union branches, `[key]`, model names."""
    path: list[str | int] = []
    for part in loc:
        if not isinstance(data, dict | list):
            break
        inside = part in data if isinstance(data, dict) else isinstance(data, list) and part in range(len(data))
        if inside:
            data = data[part]
        elif part in ("[key]", *_TYPES) or (isinstance(part, str) and ("(" in part or isinstance(data, list))):
            continue
        else:
            data = {}
        path.append(part)
    return tuple(path)


def _known_fields(root: type[BaseModel], path: yaml.Path) -> list[str]:
    """The fields of the model at `path`, to find the nearest spelling."""
    model: Any = root
    for part in path:
        if isinstance(model, type) and issubclass(model, BaseModel):
            by_name = {(field.alias or name): field for name, field in model.model_fields.items()}
            if part not in by_name:
                return []
            model = by_name[str(part)].annotation
        else:
            inner = [a for a in get_args(model) if a is not type(None)]
            model = inner[-1] if inner else None
    while get_args(model) and not isinstance(model, type):
        model = get_args(model)[0]
    if isinstance(model, type) and issubclass(model, BaseModel):
        return [field.alias or name for name, field in model.model_fields.items()]
    return []
