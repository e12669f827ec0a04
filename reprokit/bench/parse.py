"""Parse the output of a benchmark into measurements with units. Pure."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from reprokit.errors import WorkFailed
from reprokit.recipe.model import Parse
from reprokit.results.likeness import without_clocks
from reprokit.results.tables import some_of
from reprokit.untrusted.documents import parsed
from reprokit.untrusted.limits import DOCUMENT, SAMPLES
from reprokit.untrusted.patterns import compiled

Param = str | int | float | bool

# Some programs colour their output and redraw lines with a carriage return even without a terminal.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_LOOK = "see its output above, and `parse` in the recipe"
_LINE = re.compile(r"[^\r\n]+")
_KEYS = ('"metric"', '"environment"', '"correctness"')
_DEEPEST = 20  # nested values
_LARGEST = 1e150  # the largest sample, as in a record
_MOST_ENVIRONMENT = 4 << 20  # characters of all lines with an environment


@dataclass(frozen=True)
class Measurement:
    """Samples of one metric, all in `unit`, for one setting of the parameters."""

    metric: str
    unit: str
    samples: tuple[float, ...]
    params: Mapping[str, Param] = field(default_factory=dict)


@dataclass(frozen=True)
class Parsed:
    """The measurements of one run, and the environment that the program reports (format `records` only).

    `apart` names values that it reports differently, as several programs of one command may. `checked` is the number of
    results that it compared with a reference; all were right.
    """

    measurements: tuple[Measurement, ...]
    environment: Mapping[str, Any] = field(default_factory=dict)
    apart: tuple[str, ...] = ()
    checked: int = 0


def parse(spec: Parse, text: str) -> Parsed:
    """The measurements in `text`. Those of the same metric, unit and parameters become one with more samples.

    Raises WorkFailed if there are none or not `spec.expect`, if one is no finite number, or if the program reports a
    wrong result. Raises UsageError for more than the limits.
    """
    lines = (match[0] for match in _LINE.finditer(_ESCAPES.sub("", text)))
    environment: dict[str, Any] = {}
    apart: dict[str, None] = {}
    checked: list[int] = []
    cases = _from_lines(spec, lines) if spec.format == "lines" else _from_records(lines, environment, apart, checked)
    count, merged = _merged(cases)
    if not count:
        raise WorkFailed("the benchmark ran and printed no measurements", hint=_LOOK)
    if spec.expect is not None and count != spec.expect:
        raise WorkFailed(
            f"the benchmark printed {count} measurements; a complete run prints {spec.expect}",
            hint=_LOOK,
        )
    # Each record has a copy.
    DOCUMENT.check(len(merged) * len(json.dumps(environment)), "bytes of a benchmark's environment in its records")
    return Parsed(merged, environment, tuple(apart), sum(checked))


def different(names: Iterable[str]) -> list[str]:
    """The reason for doubt if environments differ in `names`; else empty."""
    fields = list(names)
    return [f"different environments were reported: {some_of(fields)}"] if fields else []


def threads_of(environment: Mapping[str, Any], otherwise: int) -> int:
    """The number of threads that the program reports, if it can be one."""
    threads = environment.get("threads")
    return threads if type(threads) is int and 0 < threads < 1 << 20 else otherwise


def _from_lines(spec: Parse, lines: Iterable[str]) -> Iterator[Measurement]:
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


def _from_records(
    lines: Iterable[str], environment: dict[str, Any], apart: dict[str, None], checked: list[int]
) -> Iterator[Measurement]:
    size = 0
    for number, line in enumerate(filter(_has_key, map(_from_object_on, lines))):
        SAMPLES.check(number, "lines with results")
        try:
            read = parsed(line)
        except ValueError:
            if '"metric"' in line or '"correctness"' in line:
                raise _bad(line, "is cut off or no JSON") from None
            continue
        data = {key: value if key == "samples" else _plain(value, line) for key, value in read.items()}
        if isinstance(data.get("environment"), dict):
            size += len(line)
            if size > _MOST_ENVIRONMENT:
                raise _bad(line, f"is one of more than {_MOST_ENVIRONMENT >> 20} MiB about the environment")
            apart |= dict.fromkeys(_contradicted(environment, data["environment"]))
            environment |= data["environment"]
        if "correctness" in data:
            checked.append(_require_correct(data["correctness"], line))
        if "metric" in data:
            yield _measurement(data, line)


def _contradicted(environment: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """The names of values that were reported differently before. Clock rates do not count."""
    earlier = {name: environment[name] for name in new if name in environment}
    before, now = (without_clocks(reported)[0] for reported in (earlier, new))
    return [name for name in before if before[name] != now.get(name)]


def _require_correct(cases: Any, line: str) -> int:
    """The number of cases. Raises WorkFailed for a wrong result, and for an `ok` that is no boolean: 0 is not false."""
    if not isinstance(cases, list) or not all(isinstance(case, dict) for case in cases):
        raise _bad(line, "has a correctness that is no list of cases")
    for case in cases:
        if case.get("ok") is False:
            raise WorkFailed(f"the results are wrong, so no time counts: {json.dumps(case)[:1000]}")
        if case.get("ok") is not True:
            raise _bad(line, "has a case of correctness whose `ok` is neither true nor false")
    return len(cases)


def _from_object_on(line: str) -> str:
    """The JSON object of a line, perhaps behind a progress bar without a line end; "" if there is none."""
    if line.lstrip().startswith("{"):
        return line
    text = line[line.find("{") :] if _has_key(line) else ""
    try:
        data = parsed(text)
    except ValueError:
        return ""
    data = data if isinstance(data, dict) else {}
    counts = isinstance(data.get("correctness"), list) or isinstance(data.get("environment"), dict)
    return text if counts or {"metric", "samples"} <= data.keys() else ""


def _has_key(line: str) -> bool:
    return any(key in line for key in _KEYS)


def _measurement(data: dict[str, Any], line: str) -> Measurement:
    metric, unit, samples = data["metric"], data.get("unit"), data.get("samples")
    if not (isinstance(metric, str) and metric and isinstance(unit, str)):
        raise _bad(line, "has no metric and unit as text")
    if not isinstance(samples, list) or not samples:
        raise _bad(line, "has no samples")
    given = data.get("params") or {}
    if not isinstance(given, dict):
        raise _bad(line, "has params that are no mapping")
    params = {k: v if isinstance(v, Param) else json.dumps(v) for k, v in given.items()}
    if isinstance(data.get("impl"), str):
        params["impl"] = data["impl"]
    if any(isinstance(sample, bool) or not isinstance(sample, int | float) for sample in samples):
        raise _bad(line, "has a sample that is no number")
    return Measurement(metric, unit, tuple(_number(sample, line) for sample in samples), params)


def _merged(measurements: Iterable[Measurement]) -> tuple[int, tuple[Measurement, ...]]:
    """The number of measurements, and those merged by metric, unit and parameters."""
    firsts: dict[tuple[Any, ...], Measurement] = {}
    samples: dict[tuple[Any, ...], list[float]] = {}
    most = SAMPLES.most
    count = total = 0
    for m in measurements:
        count += 1
        total += len(m.samples)
        if total > most:
            SAMPLES.check(total, "samples in a benchmark's output")
        # repr, because 1, 1.0 and True are equal as dictionary keys.
        key = (m.metric, m.unit, *sorted((k, repr(v)) for k, v in m.params.items()))
        firsts.setdefault(key, m)
        samples.setdefault(key, []).extend(m.samples)
    return count, tuple(replace(m, samples=tuple(samples[key])) for key, m in firsts.items())


def _params(match: re.Match[str]) -> dict[str, Param]:
    return {name: _param(text) for name, text in match.groupdict().items() if text is not None}


def _param(text: str) -> Param:
    if re.fullmatch(r"[+-]?[0-9]{1,18}", text):
        return int(text)
    if re.fullmatch(r"[+-]?[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]{1,2})?", text) and len(text) < 30:
        return float(text)
    return text


def _plain(value: Any, line: str, depth: int = _DEEPEST) -> Any:
    """Replace by text the values that no record can have: NaN, infinities, huge integers, lone surrogates."""
    if not depth:
        raise _bad(line, "is nested too deeply")
    if isinstance(value, dict):
        return {_text(key): _plain(inner, line, depth - 1) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner, line, depth - 1) for inner in value]
    if isinstance(value, str):
        return _text(value)
    unlike = abs(value) >> 63 if isinstance(value, int) else isinstance(value, float) and not math.isfinite(value)
    return str(value) if unlike else value


def _text(value: str) -> str:
    return value.encode("utf-8", "replace").decode()


def _number(written: Any, line: str) -> float:
    try:
        if isinstance(written, str) and ("_" in written or not written.isascii()):
            raise ValueError  # Python accepts it, programs do not print it
        number = float(written)
    except (TypeError, ValueError, OverflowError):
        raise _bad(line, f"holds {str(written)[:40]!r}, which is no number") from None
    if not abs(number) <= _LARGEST:
        raise _bad(line, f"holds {number}, which is no measurement")
    return number


def _bad(line: str, what: str) -> WorkFailed:
    shown = line.strip()
    return WorkFailed(f"a line of the output {what}: {shown[:120]}{'...' if len(shown) > 120 else ''}")
