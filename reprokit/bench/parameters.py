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


def check_names(label: str, benchmarks: Iterable[Benchmark], names: Iterable[str], where: str) -> None:
    """Raises UsageError for a variable that no benchmark has: its values would change nothing.

    A benchmark has the variables of its matrix and command, and those that programs read, such as OMP_NUM_THREADS.
    """
    own = dict.fromkeys(
        name
        for benchmark in benchmarks
        for name in (*benchmark.matrix, *re.findall(r"(?:\$\{?|['\"])([A-Za-z_]\w*)", benchmark.command))
    )
    for name in [name for name in names if name not in own]:
        of_a_program = re.fullmatch("[A-Z][A-Z0-9]*_[A-Z0-9_]*", name)
        similar = nearest(name, own, 0.8 if of_a_program else 0.5)
        if similar or not of_a_program:
            variables = (
                f"variables are {', '.join(own)}" if own else "name it in the `matrix` or command of a benchmark"
            )
            raise UsageError(f"no benchmark of {label} has the variable {name}{similar}", where, variables)
