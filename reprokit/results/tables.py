"""Records as tables: one row a case, medians with their spread, implementations side by side. Pure."""

from __future__ import annotations

import contextlib
import json
import re
import statistics
from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from reprokit.errors import UsageError
from reprokit.formatting import counted
from reprokit.results.likeness import IDENTITY, Group, differing, has_params, key_of
from reprokit.results.likeness import groups as grouped
from reprokit.results.roofline import is_constant, peak_shares
from reprokit.tables import ReportTable
from reprokit.untrusted.limits import CLAIM_SECONDS
from reprokit.untrusted.time_limit import processor_time

if TYPE_CHECKING:
    from reprokit.recipe.model import Benchmark, BenchmarkSummary, Claim
    from reprokit.results.record import Record

# Groups that agree in these are compared. If fields other than the parameters differ, each set of conditions gets its
# own table, with a note that names these fields.
_QUESTION = ("recipe", "variant", "benchmark", "metric", "unit")
_MOST_DOUBTS = 3
_MOST_APART = 20
_MOST_COLUMNS = 100
_MOST_SUMMARY = 12
# The fields that groups of one table, or one plot, have in common.
TABLE = tuple(name for name in IDENTITY if name != "params")


def sections(groups: Sequence[Group], claims: Mapping[str, Sequence[Claim]] = {}) -> list[ReportTable]:
    """The tables of `groups`, with the claims of each recipe.

    A note names what separates groups that answer the same question. Raises UsageError if it takes too long.
    """
    with processor_time(CLAIM_SECONDS.most, "making the tables", hint=CLAIM_SECONDS.hint):
        return _sections(groups, claims)


def _sections(groups: Sequence[Group], claims: Mapping[str, Sequence[Claim]]) -> list[ReportTable]:
    tables: dict[str, list[Group]] = {}
    questions: dict[str, list[Group]] = {}
    for group in groups:
        tables.setdefault(key_of(group, TABLE), []).append(group)
        questions.setdefault(key_of(group, _QUESTION), []).append(group)
    apart = {key: [f for f in differing(alike) if not f.startswith("params.")] for key, alike in questions.items()}
    return [_section(table, apart[key_of(table[0], _QUESTION)], _claims(table, claims)) for table in tables.values()]


def summary(records: Sequence[Record], chosen: BenchmarkSummary) -> ReportTable | None:
    """One implementation beside the fastest of the others, for the records of one run of a benchmark.

    Returns None if no case has both. The share of the machine's peak is shown if the benchmark measures the peak.
    """
    shares = dict(zip(map(id, records), peak_shares(records), strict=True))
    cases: dict[str, dict[str, Record]] = {}
    for record in records:
        params = _without_impl(record)
        included = all(any(has_params(params, {k: v}) for v in values) for k, values in chosen.params.items())
        if record.metric == chosen.metric and "impl" in record.params and included:
            cases.setdefault(repr(sorted(params.items())), {})[shown(record.params["impl"])] = record
    pairs = []
    for by_impl in cases.values():
        own, others = by_impl.pop(chosen.impl, None), by_impl
        if own and others:
            best = min(others, key=lambda impl: statistics.median(others[impl].samples))
            pairs.append((own, best, others[best]))
    if not pairs:
        return None
    first = pairs[0][0]
    where = f"{first.recipe}:{first.variant} {first.benchmark}"
    constant, varying = _constant_and_varying([_without_impl(own) for own, _, _ in pairs], where)
    rows = []
    for own, best, other in pairs[:_MOST_SUMMARY]:
        mine, theirs = statistics.median(own.samples), statistics.median(other.samples)
        case = [shown(own.params.get(name, "")) for name in varying]
        share = f"{shares[id(own)]:.1%}" if shares[id(own)] else ""
        rows.append((*case, number(mine), f"{number(theirs)} {best}", f"{theirs / mine:.2f}x" if mine else "", share))
    rows.sort(key=lambda row: [_natural(cell) for cell in row[: len(varying)]])
    hidden = [f"{len(pairs) - len(rows)} more cases"] if len(rows) < len(pairs) else []
    return ReportTable(
        f"{where}: {first.metric} [{first.unit}]",
        ", ".join([f"{name} {shown(value)}" for name, value in constant.items()] + conditions(vars(first))),
        (*varying, chosen.impl, "fastest other", "ratio", "of peak"),
        tuple(rows),
        (*_notes(grouped(own for own, _, _ in pairs), (), ()), *hidden),
        keys=len(varying),
    )


def of_run(
    records: Sequence[Record], benchmarks: Mapping[str, Benchmark], claims: Sequence[Claim]
) -> tuple[list[ReportTable], bool]:
    """The summaries of these benchmarks, all tables of the others, and whether there is a summary."""
    tables: list[ReportTable] = []
    others: list[Record] = []
    for name, same in groupby(records, attrgetter("benchmark")):
        measured = list(same)
        chosen = benchmarks[name].summary if name in benchmarks else None
        short = summary(measured, chosen) if chosen else None
        tables += [short] if short else []
        others += [] if short else measured
    by_recipe = {record.recipe: claims for record in records}
    return [*tables, *sections(grouped(others), by_recipe)], bool(tables)


def _without_impl(record: Record) -> dict[str, Any]:
    return {name: value for name, value in record.params.items() if name != "impl"}


def overview(groups: Sequence[Group]) -> ReportTable:
    """One row for each benchmark's metric on each machine."""
    by_question: dict[str, list[Group]] = {}
    for group in groups:
        by_question.setdefault(key_of(group, (*_QUESTION, "cpu", "gpu", "node")), []).append(group)
    rows = []
    for alike in by_question.values():
        first = alike[0].identity
        rows.append(
            (
                f"{first['recipe']}:{first['variant']}",
                first["benchmark"],
                f"{first['metric']} [{first['unit']}]",
                str(len({key_of(group, ("params",)) for group in alike})),
                str(sum(len(group.runs) for group in alike)),
                str(sum(len(run.samples) for group in alike for run in group.runs)),
                max(group.last for group in alike),
                first["node"],
                first["gpu"] or first["cpu"],
            )
        )
    columns = ("recipe", "benchmark", "metric", "cases", "records", "samples", "last", "node", "machine")
    return ReportTable("results", "", columns, tuple(rows), words=(0, 1, 2, 6, 7, 8), keys=3)


def by_machine(overview_table: ReportTable) -> list[ReportTable]:
    """An overview for a terminal: a table for each recipe and machine, which are its title."""
    apart: dict[str, list[tuple[str, ...]]] = {}
    for recipe, *cells, last, node, machine in overview_table.rows:
        title = ", ".join(filter(None, (recipe, machine, node and f"node {node}")))
        apart.setdefault(title, []).append((*cells, last[:10]))
    columns = overview_table.columns[1:-2]
    return [ReportTable(title, "", columns, tuple(rows), words=(0, 1, 5), keys=2) for title, rows in apart.items()]


def number(value: float) -> str:
    """Four significant digits, with an exponent only for very large or small numbers."""
    if value == 0 or 1e-4 <= abs(value) < 1e6:
        digits = f"{value:.4g}"
        return f"{value:.0f}" if "e" in digits else digits
    return f"{value:.3e}"


def _section(table: list[Group], apart: Sequence[str], claims: Sequence[Claim]) -> ReportTable:
    first = table[0].identity
    every = [group.identity["params"] for group in table]
    constant, varying = _constant_and_varying(every, f"{first['recipe']}:{first['variant']} {first['benchmark']}")
    impls = {shown(params.get("impl", "")) for params in every}
    compared = len(table) > 1 and "impl" in varying and len(impls) <= _MOST_COLUMNS
    if compared:
        varying.remove("impl")
    columns, rows = (_side_by_side if compared else _plain)(table, varying)
    rows.sort(key=lambda row: [_natural(cell) for cell in row[: len(varying)]])
    runs = max(len(group.runs) for group in table)
    settings = [f"{name} {shown(value)}" for name, value in constant.items()] + conditions(first)
    if runs > 1:
        settings.append(f"{runs} runs")
    return ReportTable(
        f"{first['recipe']}:{first['variant']} {first['benchmark']}: {first['metric']} [{first['unit']}]",
        ", ".join(settings),
        (*varying, *columns),
        tuple(rows),
        tuple(_notes(table, apart, claims)),
        keys=len(varying),
    )


def _constant_and_varying(every: Sequence[Mapping[str, Any]], where: str) -> tuple[dict[str, Any], list[str]]:
    """The parameters that several cases share, with their values, and the names of the others. Raises UsageError."""
    names = list(dict.fromkeys(name for params in every for name in params))
    if len(names) > _MOST_COLUMNS:
        problem = f"results that belong together have {len(names)} parameters; a table has at most {_MOST_COLUMNS}"
        raise UsageError(problem, where)
    constant = {
        name: every[0][name]
        for name in names
        if name in every[0] and len(every) > 1 and len({repr(params.get(name)) for params in every}) == 1
    }
    return constant, [name for name in names if name not in constant]


def _plain(table: list[Group], varying: list[str]) -> tuple[list[str], list[tuple[str, ...]]]:
    cases = [[shown(group.identity["params"].get(name, "")) for name in varying] for group in table]
    its = table[0].identity
    if is_constant(its["metric"], its["unit"]) and all(len(set(group.samples)) == 1 for group in table):
        return ["value"], [(*case, number(group.median)) for case, group in zip(cases, table, strict=True)]
    rows = [
        (
            *case,
            number(group.median),
            _spread(group),
            str(len(group.samples)),
        )
        for case, group in zip(cases, table, strict=True)
    ]
    return ["median", "min..max", "samples"], rows


def _side_by_side(table: list[Group], varying: list[str]) -> tuple[list[str], list[tuple[str, ...]]]:
    """One column an implementation, and the ratio of the others' medians to the first one's."""
    # By repr, because 1 and "1" look alike, and 1 == True as a key.
    cases: dict[str, dict[str, Group]] = {}
    names: dict[str, str] = {}
    for group in table:
        params = group.identity["params"]
        impl = repr(params.get("impl"))
        names.setdefault(impl, shown(params.get("impl", "")) or "no impl")
        cases.setdefault(repr([params.get(name) for name in varying]), {})[impl] = group
    impls = list(names)
    rows = []
    for by_impl in cases.values():
        params = next(iter(by_impl.values())).identity["params"]
        case = (shown(params.get(name, "")) for name in varying)
        cells = [_with_spread(by_impl[i]) if i in by_impl else "" for i in impls]
        base = by_impl.get(impls[0])
        for impl in impls[1:]:
            both = base is not None and base.median and impl in by_impl
            cells.append(f"{by_impl[impl].median / base.median:.2f}x" if base and both else "")
        rows.append((*case, *cells))
    first, *others = names.values()
    return [first, *others, *(f"{other}/{first}" for other in others)], rows


def conditions(identity: Mapping[str, Any]) -> list[str]:
    """The machine and image of records, in words."""
    driver = f" (driver {identity['driver']})" if identity["driver"] else ""
    hardware = [identity["gpu"] and identity["gpu"] + driver, identity["cpu"]]
    return [
        *(part for part in hardware if part),
        *([] if "threads" in identity["params"] else [counted(identity["threads"], "thread")]),
        *([f"node {identity['node']}"] if identity["node"] else []),
        *(
            [f"image {identity['image_digest'].removeprefix('sha256:')[:12]}"]
            if identity["image_digest"]
            else ["no image"]
        ),
        *([f"inputs {identity['input_hash'][:12]}"] if identity["input_hash"] else []),
        *([f"commit {commit_of(identity)}"] if identity["commit"] else []),
    ]


def commit_of(identity: Mapping[str, Any]) -> str:
    """The short commit, and whether the checkout had changes."""
    return f"{identity['commit'][:12]}{' with changes' if identity['dirty'] else ''}"


def _notes(table: list[Group], apart: Sequence[str], claims: Sequence[Claim]) -> list[str]:
    notes = []
    if apart:
        notes.append(f"not averaged with other records of this benchmark: they differ in {some_of(apart)}")
    doubts = list(dict.fromkeys(text for group in table for text in group.doubts))
    # Doubts about the image come first, so that they are never cut off.
    doubts.sort(key=lambda text: not text.startswith("the image "))
    notes += [f"in doubt: {text}" for text in doubts[:_MOST_DOUBTS]]
    if len(doubts) > _MOST_DOUBTS:
        notes.append(f"in doubt for {len(doubts) - _MOST_DOUBTS} further reasons: `--json` has all")
    for claim in claims:
        figure = f"{number(claim.value)} {claim.unit}".strip()
        notes.append(f"the paper reports {figure} on {claim.hardware} ({claim.where})")
    return notes


def _claims(table: list[Group], claims: Mapping[str, Sequence[Claim]]) -> list[Claim]:
    """The claims about one of the cases of a table."""
    its = table[0].identity
    return [
        claim
        for claim in claims.get(its["recipe"], ())
        if claim.metric == its["metric"]
        and claim.benchmark in ("", its["benchmark"])
        and not claim.baseline
        and any(has_params(group.identity["params"], claim.params) for group in table)
    ]


def _with_spread(group: Group) -> str:
    return number(group.median) + (f" ({_spread(group)})" if len(group.samples) > 1 else "")


def _spread(group: Group) -> str:
    return f"{number(min(group.samples))}..{number(max(group.samples))}"


def some_of(fields: Sequence[str]) -> str:
    """The first fields, and the number of further ones."""
    more = f" and {len(fields) - _MOST_APART} more" if len(fields) > _MOST_APART else ""
    return ", ".join(fields[:_MOST_APART]) + more


def _natural(text: str) -> tuple[Any, ...]:
    """A sort key of a parameter's values: numbers by size, then words, with numbers in them by size."""
    with contextlib.suppress(ValueError):
        return (0, float(text), text)
    parts = re.split(r"0*([0-9]+)", text)  # words at even indexes, digits at odd ones: more digits are a larger number
    return (1 if text else -1, *((len(part), part) if place % 2 else part for place, part in enumerate(parts)))


def shown(value: Any) -> str:
    """A parameter as text."""
    return value if isinstance(value, str) else json.dumps(value)
