"""Parse the output of a benchmark into measurements with units. Pure."""

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

# Some programs colour their output and redraw lines with a carriage return even without a terminal.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_LOOK = "see its output above, and `parse` in the recipe"
_LINE_END = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True)
class Measurement:
    """Samples of one metric, all in `unit`, for one setting of the parameters."""

    metric: str
    unit: str
    samples: tuple[float, ...]
    params: Mapping[str, Param] = field(default_factory=dict)


@dataclass(frozen=True)
class Parsed:
    """The measurements of one run, and the environment that the program reports (format `records` only)."""

    measurements: tuple[Measurement, ...]
    environment: Mapping[str, Any] = field(default_factory=dict)


def parse(spec: Parse, text: str) -> Parsed:
    """The measurements in `text`. Those of the same metric, unit and parameters become one with more samples.

    Raises WorkFailed where there are none or not `spec.expect`, where one is no finite number, and where the program
    reports a wrong result.
    """
    lines = _LINE_END.split(_ESCAPES.sub("", text))
    environment: dict[str, Any] = {}
    found = list(_from_lines(spec, lines) if spec.format == "lines" else _from_records(lines, environment))
    if not found:
        raise WorkFailed("the benchmark ran and printed no measurements", hint=_LOOK)
    if spec.expect is not None and len(found) != spec.expect:
        raise WorkFailed(
            f"the benchmark printed {len(found)} measurements; a complete run prints {spec.expect}",
            hint=_LOOK,
        )
    return Parsed(tuple(_merged(found)), environment)


def _from_lines(spec: Parse, lines: list[str]) -> Iterator[Measurement]:
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
                yield Measurement(value.metric, value.unit, (_number(match["value"], line),), {**context, **own})


def _from_records(lines: list[str], environment: dict[str, Any]) -> Iterator[Measurement]:
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
            yield _measurement(data, line)


def _measurement(data: dict[str, Any], line: str) -> Measurement:
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
    return Measurement(metric, unit, tuple(_number(sample, line) for sample in samples), params)


def _merged(found: list[Measurement]) -> Iterator[Measurement]:
    by_key: dict[tuple, list[Measurement]] = {}
    for one in found:
        # repr, because 1, 1.0 and True are equal as dictionary keys.
        params = tuple(sorted((k, repr(v)) for k, v in one.params.items()))
        by_key.setdefault((one.metric, one.unit, params), []).append(one)
    for same in by_key.values():
        samples = tuple(sample for one in same for sample in one.samples)
        yield Measurement(same[0].metric, same[0].unit, samples, same[0].params)


def _params(match: re.Match[str]) -> dict[str, Param]:
    return {name: _param(text) for name, text in match.groupdict().items() if text is not None}


def _param(text: str) -> Param:
    if re.fullmatch(r"[+-]?[0-9]{1,18}", text):
        return int(text)
    if re.fullmatch(r"[+-]?[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]{1,2})?", text) and len(text) < 30:
        return float(text)
    return text


def _plain(value: Any) -> Any:
    """Replace NaN and infinities by text, because JSON does not have them."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _number(written: Any, line: str) -> float:
    try:
        if isinstance(written, str) and ("_" in written or not written.isascii()):
            raise ValueError  # numbers of Python, not of programs
        number = float(written)
    except (TypeError, ValueError, OverflowError):
        raise _bad(line, f"holds {str(written)[:40]!r}, which is no number") from None
    if not math.isfinite(number):
        raise _bad(line, f"holds {number}, which is no measurement")
    return number


def _bad(line: str, what: str) -> WorkFailed:
    shown = line.strip()
    return WorkFailed(f"a line of the output {what}: {shown[:120]}{'...' if len(shown) > 120 else ''}")
