"""The answer of a job, checked: a worker may return records that are hostile, foreign, double or too many."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from reprokit.errors import ReprokitError
from reprokit.results import lines
from reprokit.results.likeness import has_params
from reprokit.results.record import Record
from reprokit.sweep.bench_process import MOST_OUTPUT
from reprokit.sweep.runner import JobAnswer
from reprokit.untrusted.documents import parsed

_MOST_RECORDS = 10_000
# What a job's records must have as the plan has it, so that no answer of another job, or of another recipe of the same
# name, is taken for it.
_EQUAL = ("recipe", "variant", "benchmark", "command", "lock_hash")


def records_of(answer: JobAnswer) -> list[Record]:
    """The records, with the job and the alias of the place. Raises ValueError, which says what is wrong with them."""
    if len(answer.output) > MOST_OUTPUT:
        raise ValueError(f"its answer is longer than {MOST_OUTPUT >> 20} MiB")
    try:
        data = parsed(answer.output)
    except ReprokitError as error:
        raise ValueError(error.message) from None
    except ValueError:
        raise ValueError("its answer is not JSON") from None
    found = data.get("records") if isinstance(data, dict) else None
    if not isinstance(found, list):
        raise ValueError("its answer has no records")
    if not found:
        raise ValueError(_reason(data) or "it measured nothing")
    if len(found) > _MOST_RECORDS:
        raise ValueError(f"its answer has {len(found)} records, more than {_MOST_RECORDS}")
    records = [_record(each, number) for number, each in enumerate(found, 1)]
    seen = set()
    for record in records:
        for name in _EQUAL:
            if (theirs := getattr(record, name)) != (ours := getattr(answer.job, name)):
                raise ValueError(f"it returned a record of another {name}: {_short(theirs)}, not {_short(ours)}")
        for name, value in answer.job.params.items():
            printed = record.params.get(name)
            # The program may print a variable that it was given in another way: 'true' for True. Records of `tune`, and
            # of older workers, have no variables.
            given = record.variables.get(name, printed)
            if not _same(given, value) or not has_params(record.params, {name: value}):
                theirs = printed if _same(given, value) else given
                raise ValueError(f"it returned a record of other parameters: {name}={_short(theirs)}")
        key = json.dumps([record.metric, record.unit, record.params], sort_keys=True)
        if key in seen:
            raise ValueError(f"it returned two records of {_short(record.metric)} with the same parameters")
        seen.add(key)
    return [replace(record, job=answer.job.id, node=answer.place.name) for record in records]


def _record(data: Any, number: int) -> Record:
    try:
        ((_, record),) = lines.numbered([json.dumps(data).encode() + b"\n"], "record", number)
    except ReprokitError as error:
        raise ValueError(f"{error.where}: {error.message}") from None
    return record


def _reason(data: Mapping[str, Any]) -> str:
    """Why nothing was measured, as `reprokit bench --json` says it."""
    for part in (data.get("failed"), data.get("left_out")):
        if isinstance(part, list) and part and isinstance(part[0], dict):
            return str(part[0].get("reason", ""))[:500]
    return ""


def _same(theirs: Any, ours: Any) -> bool:
    """Equal in type, too: True and 1 are equal in Python."""
    return type(theirs) is type(ours) and theirs == ours


def _short(value: Any) -> str:
    return repr(value)[:80]
