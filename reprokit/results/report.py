"""The report: one HTML page without scripts and requests, and Markdown, from records and recipes. Pure but for plots.

Records come from a checkout and may hold anything. Every text is escaped by the template, the page's own policy forbids
scripts and requests, and it needs no JavaScript.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import get_args

from reprokit.formatting import counted, size
from reprokit.recipe.model import Recipe
from reprokit.recipe.yaml import scalar
from reprokit.results import claims
from reprokit.results.claims import JudgedClaim, Verdict
from reprokit.results.formats import as_markdown
from reprokit.results.likeness import Group, groups, key_of, same_images
from reprokit.results.plots import Plot, plots
from reprokit.results.record import MachineState, Record
from reprokit.results.roofline import is_constant
from reprokit.results.tables import TABLE, commit_of, conditions, sections, summary
from reprokit.supply.lock.model import VariantLock
from reprokit.tables import ReportTable
from reprokit.untrusted.terminal import escaped, markdown

# Each plot takes 0.2 s and 30 KB.
_MOST_PLOTS = 12
_MOST_HIGHLIGHTS = 3
_MOST_DOUBTS = 3
# Further rows are in the exported CSV.
_MOST_ROWS, _MOST_TABLES = 2000, 60
Rows = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class VariantFacts:
    """The report's facts about a variant besides its records.

    `findings` are those of `check`, in words; `sizes` are the bytes of each block of the last measured image, empty if
    the engine lacks it.
    """

    name: str
    lock: VariantLock | None
    findings: tuple[str, ...]
    sizes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class RecipeReport:
    """A recipe's part of the page. `ran`, `summaries` and `highlights` are its summary."""

    name: str
    paper: str
    ran: Rows
    summaries: tuple[ReportTable, ...]
    highlights: tuple[Plot, ...]
    claims: ReportTable
    environment: tuple[tuple[str, Rows], ...]
    plots: tuple[Plot, ...]
    tables: tuple[ReportTable, ...]
    machines: tuple[tuple[str, Rows], ...]
    commands: tuple[str, ...]
    badges: Rows
    verdicts: Mapping[str, int]
    steps: ReportTable | None = None
    unplotted: int = 0

    @property
    def further_plots(self) -> Mapping[str, Sequence[Plot]]:
        """The plots that are not in the summary, by caption."""
        by_caption: dict[str, list[Plot]] = {}
        for plot in self.plots:
            if plot not in self.highlights:
                by_caption.setdefault(plot.caption, []).append(plot)
        return by_caption


@dataclass(frozen=True)
class Report:
    """The whole page."""

    title: str
    summary: str
    recipes: tuple[RecipeReport, ...]


def report(recipes: Sequence[RecipeReport]) -> Report:
    counts = Counter[str]()
    for each in recipes:
        counts.update(each.verdicts)
    names = ", ".join(each.name for each in recipes)
    return Report(f"Reproduction of {names}", f"Claims: {_counted(counts)}.", tuple(recipes))


def _counted(verdicts: Mapping[str, int]) -> str:
    return ", ".join(f"{verdicts[each]} {each}" for each in get_args(Verdict) if verdicts.get(each)) or "none"


def recipe_report(
    recipe: Recipe,
    records: Sequence[Record],
    judged: Sequence[JudgedClaim],
    variants: Sequence[VariantFacts],
    steps: ReportTable | None = None,
) -> RecipeReport:
    """A recipe's part; `steps` are those of `reproduce`."""
    ordered = sorted(records, key=lambda record: (record.variant, record.benchmark, record.metric, record.time))
    newest_first = _newest_first(groups(ordered))
    by_conditions: dict[str, list[Group]] = {}
    for group in newest_first:
        if is_constant(group.identity["metric"], group.identity["unit"]):
            continue
        by_conditions.setdefault(key_of(group, TABLE), []).append(group)
    drawn: list[Plot] = []
    unplotted = 0
    most: dict[tuple[str, ...], int] = {}
    for alike in by_conditions.values():
        most[_question(alike[0])] = max(most.get(_question(alike[0]), 0), len(alike))
    for alike in sorted(by_conditions.values(), key=lambda alike: most[_question(alike[0])], reverse=True):
        where = ", ".join(conditions(alike[0].identity))
        new = plots(alike) if len(drawn) < _MOST_PLOTS else []
        unplotted += not new
        drawn += [replace(plot, caption=f"{plot.caption}; {where}") for plot in new]
    firsts = list({plot.caption: plot for plot in reversed(drawn)}.values())[::-1]
    verdicts = Counter[str](each.verdict for each in judged)
    return RecipeReport(
        name=recipe.name,
        paper=f"{recipe.paper.title} ({recipe.paper.venue} {recipe.paper.year})",
        ran=_ran(recipe, ordered, verdicts),
        summaries=tuple(_summaries(recipe, ordered)),
        highlights=tuple(firsts[:_MOST_HIGHLIGHTS]),
        claims=_filled(claims.as_table(judged, f"claims of {recipe.name}")),
        environment=tuple((f"{recipe.name}:{facts.name}", _environment(recipe, facts, ordered)) for facts in variants),
        plots=tuple(drawn),
        unplotted=unplotted,
        tables=tuple(_shortened(sections(newest_first, {recipe.name: recipe.claims}))),
        machines=tuple(_machines(ordered)),
        commands=tuple(commands(recipe, ordered)),
        badges=_badges(recipe, ordered, judged, variants),
        verdicts=verdicts,
        steps=steps,
    )


def as_html(page: Report) -> str:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined, finalize=_finalized
    )
    template = environment.get_template("report.html.j2")
    return template.render(report=page, verdicts=get_args(Verdict))


def as_summary(page: Report) -> str:
    """Markdown for the summary of a job on GitHub."""
    parts = [f"# {markdown(page.title)}", markdown(page.summary)]
    for each in page.recipes:
        parts.append(f"## {markdown(each.name)}\n\n{as_markdown([each.claims])}")
        parts += [as_markdown([each.steps])] if each.steps else []
        parts.append(f"<details><summary>Results</summary>\n\n{as_markdown(each.tables)}\n</details>")
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def _finalized(value: object) -> object:
    """The value with control and format characters as escapes: they could reorder or hide text."""
    return escaped(value, lines=True) if type(value) is str else value


def _newest_first(groups: Sequence[Group]) -> list[Group]:
    """Sort by variant, benchmark and metric, then the last measured image or machine first."""
    last: dict[str, str] = {}
    keys = [key_of(group, TABLE) for group in groups]
    for group, key in zip(groups, keys, strict=True):
        last[key] = max(last.get(key, ""), group.last)
    newest = sorted(zip(groups, keys, strict=True), key=lambda item: last[item[1]], reverse=True)
    return [group for group, _ in sorted(newest, key=lambda item: _question(item[0]))]


def _question(group: Group) -> tuple[str, ...]:
    return tuple(group.identity[name] for name in ("variant", "benchmark", "metric", "unit"))


def _ran(recipe: Recipe, records: Sequence[Record], verdicts: Mapping[str, int]) -> Rows:
    """The benchmarks that ran, their machines, and the verdicts."""
    ran = Counter(f"{recipe.name}:{record.variant} {record.benchmark}" for record in records)
    where = (", ".join(filter(None, (r.node, r.gpu or r.cpu, counted(r.threads, "thread")))) for r in records)
    checked = max((record.checked for record in records), default=0)
    rows = (
        ("what ran", "; ".join(f"{name}: {counted(count, 'record')}" for name, count in ran.items()) or "nothing yet"),
        ("where", "; ".join(_unique(where))),
        ("when", " to ".join(_unique(f(r.time for r in records)[:10] for f in (min, max))) if records else ""),
        ("correct", f"{counted(checked, 'result')} compared with a reference: all correct" if checked else ""),
        ("claims", _counted(verdicts)),
        ("in doubt", "; ".join(_unique(text for record in records for text in record.doubts)[:_MOST_DOUBTS])),
    )
    return tuple((name, value) for name, value in rows if value)


def _summaries(recipe: Recipe, records: Sequence[Record]) -> Iterator[ReportTable]:
    """The table that `bench` shows, if a benchmark has one, of the latest records of the latest image."""
    runs: dict[tuple[str, str], list[Record]] = {}
    for record in same_images(records):
        runs.setdefault((record.variant, record.benchmark), []).append(record)
    for (_, name), run in runs.items():
        chosen = recipe.benchmarks[name].summary if name in recipe.benchmarks else None
        if not chosen:
            continue
        run.sort(key=lambda record: record.time)
        alike = [record for record in run if _place(record) == _place(run[-1])]
        latest = {(record.metric, repr(sorted(record.params.items()))): record for record in alike}
        table = summary(list(latest.values()), chosen)
        if table:  # the summary names the doubts once
            notes = tuple(note for note in table.notes if not note.startswith("in doubt: "))
            yield replace(_filled(table), notes=notes)


def _place(record: Record) -> tuple[str | int, ...]:
    return record.image_digest, record.node, record.cpu, record.gpu, record.threads


def _filled(table: ReportTable) -> ReportTable:
    """The table without its empty columns."""
    kept = [place for place in range(len(table.columns)) if any(row[place] for row in table.rows)]
    return replace(
        table,
        columns=tuple(table.columns[place] for place in kept),
        rows=tuple(tuple(row[place] for place in kept) for row in table.rows),
        words=tuple(new for new, place in enumerate(kept) if place in table.words),
        keys=sum(place < table.keys for place in kept),
    )


def _shortened(tables: Sequence[ReportTable]) -> list[ReportTable]:
    short = []
    for table in tables[:_MOST_TABLES]:
        hidden = len(table.rows) - _MOST_ROWS
        more = (f"{hidden} more rows: `reprokit results export --csv` prints all",) if hidden > 0 else ()
        notes = (*table.notes, *more)
        short.append(_filled(replace(table, rows=table.rows[:_MOST_ROWS], notes=notes)))
    if len(tables) > _MOST_TABLES:
        note = f"{len(tables) - _MOST_TABLES} more tables: `reprokit results show` prints all"
        short.append(ReportTable("Further tables", note, (), ()))
    return short


def _environment(recipe: Recipe, facts: VariantFacts, records: Sequence[Record]) -> Rows:
    variant = recipe.variants[facts.name]
    mine = [record for record in records if record.variant == facts.name]
    mine.sort(key=lambda record: record.time, reverse=True)
    lock = facts.lock
    rows = [
        ("base", variant.base),
        ("pins", ", ".join(f"{pin} {version}" for pin, version in variant.pins.items())),
        ("blocks", ", ".join(block.name for block in variant.blocks)),
        ("sources", ", ".join(f"{source.git} at {source.commit}" for source in variant.sources)),
        ("lock", lock.hash if lock else "none: inputs may change between builds"),
        ("inputs by kind", _sizes(lock) if lock else ""),
        ("image by block", ", ".join(f"{name} {size(count)}" for name, count in facts.sizes.items())),
        ("findings of check", "; ".join(facts.findings) or "none"),
        ("images measured", ", ".join(_unique(record.image_digest for record in mine))),
        ("commits measured", ", ".join(_unique(commit_of(vars(record)) for record in mine if record.commit))),
        ("data", ", ".join(_unique(f"{name} {digest}" for record in mine for name, digest in record.files.items()))),
        ("reprokit", ", ".join(_unique(record.reprokit for record in mine))),
    ]
    return tuple((name, value) for name, value in rows if value)


def _sizes(lock: VariantLock) -> str:
    from reprokit.supply.kinds import all_kinds

    parts = []
    for kind in all_kinds():
        entries = getattr(lock, kind.name)
        total = sum(getattr(entry, "size", 0) or 0 for entry in entries)
        parts += [f"{kind.name}: {len(entries)}{f', {size(total)}' if total else ''}"] if entries else []
    return "; ".join(parts)


def _machines(records: Sequence[Record]) -> list[tuple[str, Rows]]:
    """One table for each machine, of its latest record."""
    latest: dict[tuple[str, str, str, int], Record] = {}
    for record in sorted(records, key=lambda record: record.time):
        latest[(record.node, record.cpu, record.gpu, record.threads)] = record
    return [(record.gpu or record.cpu or "machine", _machine(record)) for record in latest.values()]


def _machine(record: Record) -> Rows:
    facts = record.machine
    caches = ", ".join(f"{name} {size(count)}" for name, count in facts.caches.items())
    clocks = ", ".join(f"{name} {value}" for name, value in record.clocks.items())
    counts = ((facts.cores, "core"), (facts.sockets, "socket"), (facts.numa_nodes, "NUMA node"))
    rows = [
        ("node", record.node),
        ("processor", record.cpu),
        ("container", counted(record.threads, "thread")),
        ("cores", ", ".join(counted(number, name) for number, name in counts if number)),
        ("caches", caches),
        ("memory", size(facts.memory) if facts.memory else ""),
        ("GPU", f"{record.gpu}, driver {record.driver}" if record.gpu else "none"),
        ("clocks in MHz", clocks),
        ("before", _state(record.before)),
        ("after", _state(record.after)),
        ("in doubt", "; ".join(record.doubts)),
    ]
    return tuple((name, value) for name, value in rows if value)


def _state(state: MachineState) -> str:
    parts = [
        f"{state.load:g} processors busy" if state.load is not None else "",
        f"{state.cpu_clock} MHz" if state.cpu_clock is not None else "",
        f"{state.cpu_temperature:g} °C" if state.cpu_temperature is not None else "",
        *(f"GPU {n}: {clock} MHz" for n, clock in enumerate(state.gpu_clock) if clock is not None),
        *(f"GPU {n}: {heat} °C" for n, heat in enumerate(state.gpu_temperature) if heat is not None),
    ]
    return ", ".join(filter(None, parts))


def _badges(
    recipe: Recipe, records: Sequence[Record], judged: Sequence[JudgedClaim], variants: Sequence[VariantFacts]
) -> Rows:
    """The questions of ACM's artifact review for each badge (version 1.1), with answers from recipe and records."""
    counts = Counter(each.verdict for each in judged)
    locked = [facts.name for facts in variants if facts.lock]
    to_run = ((recipe.smoke, "smoke command"), (recipe.benchmarks, "benchmark"), (records, "record"))
    code = recipe.paper.urls.get("code") or next(
        (source.git for variant in recipe.variants.values() for source in variant.sources), "not named"
    )
    failed = counts["not reproduced"]
    reproduced = (
        f"{counts['reproduced']} of {len(judged)} claims reproduced, {failed} not, "
        f"{counts['not comparable']} not comparable, {counts['not measured']} not measured"
    )
    return (
        ("Artifacts available: where", code),
        ("Artifacts available: licence", recipe.paper.licence),
        ("Functional: documented", f"the recipe {recipe.name} names pins, blocks, data, benchmarks and claims"),
        ("Functional: consistent", "; ".join(_unique(each.claim.where for each in judged)) or "no claims"),
        ("Functional: complete", f"locked variants: {', '.join(locked) or 'none'}; all inputs by checksum"),
        ("Functional: exercisable", ", ".join(counted(len(parts), name) for parts, name in to_run)),
        ("Reusable", f"variants: {', '.join(recipe.variants)}; `reprokit render {recipe.name}` needs Docker alone"),
        ("Results reproduced", reproduced),
    )


def _unique(values: Iterable[str]) -> list[str]:
    return [value for value in dict.fromkeys(values) if value]


def commands(recipe: Recipe, records: Sequence[Record]) -> list[str]:
    """The commands that repeat the rows, by the recipe's name."""
    ran = dict.fromkeys(_bench(recipe, record) for record in records if record.variant in recipe.variants)
    variants = sorted({record.variant for record in records if record.variant in recipe.variants})
    builds = [f"reprokit build {recipe.name}:{variant}" for variant in variants]
    return [
        *builds,
        *filter(None, ran),
        f"reprokit results claims {recipe.name}",
        f"reprokit report {recipe.name} -o report",
    ]


def _bench(recipe: Recipe, record: Record) -> str:
    """The command that repeats a row, "" for a benchmark that the recipe does not have."""
    extension = re.fullmatch(r"extension\.([a-z0-9][a-z0-9_.-]*)", record.benchmark)
    if not extension and record.benchmark not in recipe.benchmarks:
        return ""
    matrix = {} if extension else recipe.benchmarks[record.benchmark].matrix
    words = [*(["--extension"] if extension else []), "--repeat", str(len(record.repeats) or 1)]
    words += ["--warm-up", str(record.warm_up)] if record.warm_up else []
    for name, value in record.variables.items():
        if scalar(value) not in map(scalar, matrix.get(name, [])):
            words += ["--param", f"{name}={scalar(value)}"]
    # `--on` accepts no places of a cluster.
    words += ["--on", record.node] if record.node and not record.node.startswith("slurm-") else []
    name = extension[1] if extension else record.benchmark
    return shlex.join(["reprokit", "bench", f"{recipe.name}:{record.variant}", name, *words])
