"""Variables that a user sets for a benchmark, by `--param NAME=VALUE` or in a sweep."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pydantic import TypeAdapter, ValidationError

from reprokit.errors import UsageError
from reprokit.recipe import yaml
from reprokit.recipe.fields import EnvName, variable
from reprokit.recipe.model import Benchmark
from reprokit.recipe.spelling import nearest

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
    if not separator or not isinstance(value, str | int | float):
        raise UsageError(f"{where}: the value is not text, a number, true or false", hint=_HINT)
    try:
        return name, variable(value)
    except ValueError as error:
        raise UsageError(f"{where}: {error}", hint=_HINT) from None


def doubtful(title: str, benchmark: Benchmark, names: Iterable[str]) -> list[str]:
    """A line for each name that its matrix and command do not have, where it resembles one that they have.

    Programs read other variables, too. But a slip would measure the same thing again and again, in silence.
    """
    own = {*benchmark.matrix, *re.findall(r"\$\{?([A-Za-z_]\w*)", benchmark.command)}
    similar = {name: nearest(name, sorted(own)) for name in names if name not in own}
    return [
        f"{title} gets {name}, which its command and matrix do not have{like}" for name, like in similar.items() if like
    ]
