"""Which records may be pooled, and their medians. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from reprokit.bench.record import Record
from reprokit.errors import UsageError

# The fields in which pooled records agree. Excluded: samples and time, which differ in each measurement; clocks, which
# vary; reprokit's version, the schema and the image's trust, which do not affect the result.
IDENTITY = (
    "metric", "unit", "params", "recipe", "variant", "benchmark", "command", "input_hash", "image_digest",
    "cpu", "threads", "gpu", "driver", "environment", "files",
)  # fmt: skip


@dataclass(frozen=True)
class Summary:
    """The samples of pooled records; `record` is the last one."""

    record: Record
    median: float
    low: float
    high: float
    samples: int
    runs: int


def differing(records: Sequence[Record]) -> list[str]:
    """The fields of IDENTITY in which the records differ; for a mapping the keys, as `params.batch`."""
    found = []
    for name in IDENTITY:
        values = [getattr(record, name) for record in records]
        if isinstance(values[0], dict):
            keys = sorted({key for value in values for key in value})
            found += [f"{name}.{key}" for key in keys if _differ([value.get(key) for value in values])]
        elif _differ(values):
            found.append(name)
    return found


def pool(records: Sequence[Record]) -> Summary:
    """Summarise records that agree in IDENTITY. Raises UsageError naming the fields in which they differ."""
    if not records:
        raise UsageError("there are no records to average")
    fields = differing(records)
    if fields:
        raise UsageError(
            f"{len(records)} records cannot be averaged: they differ in {', '.join(fields)}",
            hint="compare them side by side, or measure again under the same conditions",
        )
    samples = [sample for record in records for sample in record.samples]
    return Summary(records[-1], statistics.median(samples), min(samples), max(samples), len(samples), runs=len(records))


def groups(records: Sequence[Record]) -> list[list[Record]]:
    """Group records that agree in IDENTITY, in order of first appearance."""
    found: dict[str, list[Record]] = {}
    for record in records:
        found.setdefault(identity(record), []).append(record)
    return list(found.values())


def identity(record: Record, without: Sequence[str] = ()) -> str:
    """A key that is equal for records which agree in all fields of IDENTITY but those of `without`."""
    return repr([_sorted(getattr(record, name)) for name in IDENTITY if name not in without])


def _differ(values: Sequence[Any]) -> bool:
    return len({repr(_sorted(value)) for value in values}) > 1


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return sorted((key, _sorted(inner)) for key, inner in value.items())
    return value
