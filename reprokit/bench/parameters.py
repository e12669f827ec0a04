"""`--param NAME=VALUE` of `bench`."""

from __future__ import annotations

import math

from pydantic import TypeAdapter, ValidationError

from reprokit.errors import UsageError
from reprokit.recipe import yaml
from reprokit.recipe.fields import EnvName

_NAME: TypeAdapter[str] = TypeAdapter(EnvName)
_HINT = "write --param NAME=VALUE, for example THREADS=4; a text that reads like a number has quotes: NAME='\"4\"'"


def parameter(text: str) -> tuple[str, str | int | float | bool]:
    """`NAME=VALUE`, the value as in YAML. Raises UsageError."""
    name, separator, written = text.partition("=")
    where = f"--param {text!r}"
    try:
        _NAME.validate_python(name)
    except ValidationError:
        raise UsageError(f"{where}: {name!r} is not a variable's name", hint=_HINT) from None
    try:
        value = yaml.read(written, where).data
    except UsageError:
        value = None
    finite = math.isfinite(value) if isinstance(value, float) else isinstance(value, str | int)
    if not separator or not finite:
        raise UsageError(f"{where}: the value is not text, a number, true or false", hint=_HINT)
    return name, value
