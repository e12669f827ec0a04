"""Records as tables: one row a case, medians with their spread, implementations side by side. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from reprokit.bench.compare import Summary, differing, groups, identity, pool
from reprokit.bench.record import Record
from reprokit.recipe.model import Claim

# Records that agree in these are compared. Where other fields than the parameters differ, each set of conditions gets a
# table of its own, with a note that names these fields.
_QUESTION = ("recipe", "variant", "benchmark", "metric", "unit")


@dataclass(frozen=True)
class ReportTable:
    """A table of one metric under one set of conditions. `rows` are as wide as `columns`."""

    title: str
    conditions: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


def sections(records: Sequence[Record], claims: Sequence[Claim] = ()) -> list[ReportTable]:
    """The tables of `records`. Records under the same conditions are pooled; a note names what separates others."""
    tables: dict[str, list[Summary]] = {}
    questions: dict[tuple, list[Record]] = {}
    for group in groups(records):
        summary = pool(group)
        tables.setdefault(identity(summary.record, without=("params",)), []).append(summary)
        question = tuple(getattr(summary.record, name) for name in _QUESTION)
        questions.setdefault(question, []).append(summary.record)
    return [_section(table, questions, claims) for table in tables.values()]


def number(value: float) -> str:
    """Four significant digits, with an exponent only for very large or small numbers."""
    if value == 0 or 1e-4 <= abs(value) < 1e6:
        digits = f"{value:.4g}"
        return f"{value:.0f}" if "e" in digits else digits
    return f"{value:.3e}"


def _section(table: list[Summary], questions: dict[tuple, list[Record]], claims: Sequence[Claim]) -> ReportTable:
    first = table[0].record
    names = list(dict.fromkeys(name for summary in table for name in summary.record.params))
    constant = {
        name: first.params[name]
        for name in names
        if name in first.params and len(table) > 1 and len({repr(s.record.params.get(name)) for s in table}) == 1
    }
    compared = len(table) > 1 and "impl" in names and "impl" not in constant
    varying = [name for name in names if name not in constant and not (compared and name == "impl")]
    columns, rows = (_side_by_side if compared else _plain)(table, varying)
    runs = max(summary.runs for summary in table)
    conditions = [f"{name} {_text(value)}" for name, value in constant.items()] + _conditions(first)
    if runs > 1:
        conditions.append(f"{runs} runs")
    return ReportTable(
        f"{first.recipe}:{first.variant} {first.benchmark}: {first.metric} [{first.unit}]",
        ", ".join(conditions),
        (*varying, *columns),
        tuple(rows),
        tuple(_notes(first, questions[tuple(getattr(first, name) for name in _QUESTION)], claims)),
    )


def _plain(table: list[Summary], varying: list[str]) -> tuple[list[str], list[tuple[str, ...]]]:
    rows = [
        (
            *(_text(summary.record.params.get(name, "")) for name in varying),
            number(summary.median),
            _spread(summary),
            str(summary.samples),
        )
        for summary in table
    ]
    return ["median", "min..max", "samples"], rows


def _side_by_side(table: list[Summary], varying: list[str]) -> tuple[list[str], list[tuple[str, ...]]]:
    """One column an implementation, and the ratio of the others' medians to the first one's."""
    cases: dict[tuple[str, ...], dict[str, Summary]] = {}
    for summary in table:
        params = summary.record.params
        case = tuple(_text(params.get(name, "")) for name in varying)
        cases.setdefault(case, {})[_text(params.get("impl", ""))] = summary
    impls = list(dict.fromkeys(impl for by_impl in cases.values() for impl in by_impl))
    rows = []
    for case, by_impl in cases.items():
        cells = [f"{number(by_impl[i].median)} ({_spread(by_impl[i])})" if i in by_impl else "" for i in impls]
        base = by_impl.get(impls[0])
        for impl in impls[1:]:
            both = base is not None and base.median and impl in by_impl
            cells.append(f"{by_impl[impl].median / base.median:.2f}x" if base and both else "")
        rows.append((*case, *cells))
    return [*impls, *(f"{impl}/{impls[0]}" for impl in impls[1:])], rows


def _conditions(record: Record) -> list[str]:
    hardware = [record.gpu and f"{record.gpu} (driver {record.driver})", record.cpu]
    return [
        *(part for part in hardware if part),
        *([] if "threads" in record.params else [f"{record.threads} threads"]),
        *([f"image {record.image_digest.removeprefix('sha256:')[:12]}"] if record.image_digest else ["no image"]),
        *([f"inputs {record.input_hash[:12]}"] if record.input_hash else []),
        *(["unverified image"] if record.image_state == "unverified" else []),
    ]


def _notes(record: Record, alike: list[Record], claims: Sequence[Claim]) -> list[str]:
    notes = []
    apart = [field for field in differing(alike) if not field.startswith("params.")]
    if apart:
        notes.append(f"not averaged with other records of this benchmark: they differ in {', '.join(apart)}")
    for claim in claims:
        if claim.metric == record.metric:
            figure = f"{number(claim.value)} {claim.unit}".strip()
            notes.append(f"the paper reports {figure} on {claim.hardware} ({claim.where})")
    return notes


def _spread(summary: Summary) -> str:
    return f"{number(summary.low)}..{number(summary.high)}"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
