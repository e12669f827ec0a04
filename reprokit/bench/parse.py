"""What a benchmark printed, as figures with units. Pure."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from reprokit.errors import WorkFailed
from reprokit.recipe.model import Parse
from reprokit.untrusted.documents import parsed
from reprokit.untrusted.patterns import compiled

Param = str | int | float | bool

# Some programs colour their output and redraw lines with a bare carriage return, terminal or not.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_LOOK = "see its output above, and `parse` in the recipe"
_LINE_END = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True)
class Figure:
    """Samples of one metric, all in `unit`, for one setting of the parameters."""

    metric: str
    unit: str
    samples: tuple[float, ...]
    params: Mapping[str, Param] = field(default_factory=dict)


@dataclass(frozen=True)
class Parsed:
    """The figures of one run, and what the program said of its own surroundings (format `records` only)."""

    figures: tuple[Figure, ...]
    environment: Mapping[str, Any] = field(default_factory=dict)


def parse(spec: Parse, text: str) -> Parsed:
    """The figures in `text`. Figures of the same metric, unit and parameters become one with more samples.

    Raises WorkFailed where there is none, where their number is not `spec.expect`, where one is no finite
    number, and where the program reports a wrong result: a benchmark that prints nothing has not passed.
    """
    lines = _LINE_END.split(_ESCAPES.sub("", text))
    environment: dict[str, Any] = {}
    found = list(_from_lines(spec, lines) if spec.format == "lines" else _from_records(lines, environment))
    if not found:
        raise WorkFailed("the benchmark ran and printed no figures", hint=_LOOK)
    if spec.expect is not None and len(found) != spec.expect:
        raise WorkFailed(
            f"the benchmark printed {len(found)} figures where a complete run prints {spec.expect}",
            hint=_LOOK,
        )
    return Parsed(tuple(_merged(found)), environment)


def _from_lines(spec: Parse, lines: list[str]) -> Iterator[Figure]:
    context: dict[str, Param] = {}
    contexts = [compiled(pattern) for pattern in spec.context]
    values = [(compiled(value.pattern), value) for value in spec.values]
    for line in lines:
        for pattern in contexts:
            if match := pattern.search(line):
                context.update(_params(match))
        for pattern, value in values:
            if match := pattern.search(line):
                own = _params(match)
                own.pop("value", None)
                yield Figure(value.metric, value.unit, (_number(match["value"], line),), {**context, **own})


def _from_records(lines: list[str], environment: dict[str, Any]) -> Iterator[Figure]:
    for line in lines:
        if not line.lstrip().startswith("{"):
            continue
        try:
            data = parsed(line)
        except ValueError:
            if '"metric"' in line:
                raise _bad(line, "is cut off or no JSON") from None
            continue
        if isinstance(data.get("environment"), dict):
            environment.update(_plain(data["environment"]))
        for case in data["correctness"] if isinstance(data.get("correctness"), list) else ():
            if isinstance(case, dict) and case.get("ok") is False:
                raise WorkFailed(f"the results are wrong, so no time counts: {json.dumps(case)}")
        if "metric" in data:
            yield _record(data, line)


def _record(data: dict[str, Any], line: str) -> Figure:
    metric, unit, samples = data["metric"], data.get("unit"), data.get("samples")
    if not (isinstance(metric, str) and metric and isinstance(unit, str)):
        raise _bad(line, "has no metric and unit as text")
    if not isinstance(samples, list) or not samples:
        raise _bad(line, "has no samples")
    given = data.get("params") or {}
    if not isinstance(given, dict):
        raise _bad(line, "has params that are no mapping")
    params = {k: v if isinstance(v, Param) else json.dumps(v) for k, v in _plain(given).items()}
    if isinstance(data.get("impl"), str):
        params["impl"] = data["impl"]
    if any(isinstance(sample, bool) or not isinstance(sample, int | float) for sample in samples):
        raise _bad(line, "has a sample that is no number")
    return Figure(metric, unit, tuple(_number(sample, line) for sample in samples), params)


def _merged(figures: list[Figure]) -> Iterator[Figure]:
    by_key: dict[tuple, list[Figure]] = {}
    for figure in figures:
        # repr, because 1, 1.0 and True are one dictionary key and three parameters.
        params = tuple(sorted((k, repr(v)) for k, v in figure.params.items()))
        by_key.setdefault((figure.metric, figure.unit, params), []).append(figure)
    for same in by_key.values():
        samples = tuple(sample for figure in same for sample in figure.samples)
        yield Figure(same[0].metric, same[0].unit, samples, same[0].params)


def _params(match: re.Match[str]) -> dict[str, Param]:
    return {name: _param(text) for name, text in match.groupdict().items() if text is not None}


def _param(text: str) -> Param:
    if re.fullmatch(r"[+-]?[0-9]{1,18}", text):
        return int(text)
    if re.fullmatch(r"[+-]?[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]{1,2})?", text) and len(text) < 30:
        return float(text)
    return text


def _plain(value: Any) -> Any:
    """JSON without NaN and infinities, which Python reads and JSON does not have."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _number(written: Any, line: str) -> float:
    try:
        number = float(written)
    except (TypeError, ValueError, OverflowError):
        raise _bad(line, f"holds {str(written)[:40]!r}, which is no number") from None
    if not math.isfinite(number):
        raise _bad(line, f"holds {number}, which is no measurement")
    return number


def _bad(line: str, what: str) -> WorkFailed:
    shown = line.strip()
    return WorkFailed(f"a line of the output {what}: {shown[:120]}{'...' if len(shown) > 120 else ''}")
