"""Which records may be pooled, and the medians of those that may. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from reprokit.bench.record import Record
from reprokit.errors import UsageError

# Left out: samples and time, which make a record a new measurement; the clocks, which are read once and
# wander; reprokit's version, the schema and who vouches for the image, which measure nothing.
IDENTITY = (
    "metric", "unit", "params", "recipe", "variant", "benchmark", "command", "input_hash", "image_digest",
    "cpu", "threads", "gpu", "driver", "environment", "files",
)  # fmt: skip


@dataclass(frozen=True)
class Summary:
    """The samples of one or more like records, in the unit of `record`, which stands for all of them."""

    record: Record
    median: float
    low: float
    high: float
    samples: int
    runs: int


def differing(records: Sequence[Record]) -> list[str]:
    """The fields of IDENTITY in which the records differ; of a mapping its keys, as `params.batch`."""
    found = []
    for name in IDENTITY:
        values = [getattr(record, name) for record in records]
        if all(_same(value, values[0]) for value in values):
            continue
        if isinstance(values[0], dict):
            keys = sorted({key for value in values for key in value})
            differ = [k for k in keys if not all(_same(v.get(k), values[0].get(k)) for v in values)]
            found += [f"{name}.{key}" for key in differ]
        else:
            found.append(name)
    return found


def pool(records: Sequence[Record]) -> Summary:
    """One summary of like records. Raises UsageError naming the fields in which unlike ones differ."""
    if not records:
        raise UsageError("there are no records to average")
    fields = differing(records)
    if fields:
        raise UsageError(
            f"{len(records)} records are unlike and are not averaged: they differ in {', '.join(fields)}",
            hint="compare them side by side, or measure again under the same conditions",
        )
    samples = [sample for record in records for sample in record.samples]
    return Summary(records[-1], statistics.median(samples), min(samples), max(samples), len(samples), runs=len(records))


def groups(records: Sequence[Record]) -> list[list[Record]]:
    """The records in groups of like ones, in order of first appearance."""
    found: dict[str, list[Record]] = {}
    for record in records:
        found.setdefault(identity(record), []).append(record)
    return list(found.values())


def identity(record: Record, without: Sequence[str] = ()) -> str:
    """Equal for records that agree in every field of IDENTITY, those of `without` aside."""
    return repr([_sorted(getattr(record, name)) for name in IDENTITY if name not in without])


def _same(one: Any, other: Any) -> bool:
    return repr(_sorted(one)) == repr(_sorted(other))


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return sorted((key, _sorted(inner)) for key, inner in value.items())
    return value
