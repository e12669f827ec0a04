"""`reprokit results`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reprokit import completion
from reprokit.bench.records import groups_here, groups_of, of, records_of, results_file, some
from reprokit.commands import _options as options
from reprokit.commands._roofline import roofline
from reprokit.errors import UsageError
from reprokit.untrusted.terminal import document, dump, echo, paged

if TYPE_CHECKING:
    from reprokit.tables import ReportTable

_MOST_SHOWN = 500  # tables, which take 1 s

results = typer.Typer(
    name="results",
    help="List, show, compare, judge, export and prune the results of benchmarks.",
    add_completion=False,
    rich_markup_mode=None,
)

results.command()(roofline)

_Recipe = Annotated[
    str | None,
    typer.Option("--recipe", metavar="NAME[:VARIANT]", help="Only this recipe's.", autocompletion=completion.targets),
]


@results.command(name="list")
def list_(name: options.OneRecipe = None, as_json: options.Json = False) -> None:
    """List what was measured: cases, runs, samples, the last time and the hardware."""
    from reprokit.results.tables import by_machine, overview
    from reprokit.tables import show_tables

    rows = overview(groups_of(name))
    if as_json:
        cells = [[cell if at in rows.words else int(cell) for at, cell in enumerate(row)] for row in rows.rows]
        dump([dict(zip(rows.columns, row, strict=True)) for row in cells])
    else:
        with paged():
            show_tables(by_machine(rows))


@results.command()
def show(
    name: options.OneRecipe = None,
    benchmarks: options.Benchmarks = None,
    records: options.Records = None,
    as_json: options.Json = False,
) -> None:
    """Show medians, pooled if the conditions are the same, beside the paper's figures."""
    from reprokit.display import notify
    from reprokit.tables import show_tables

    if as_json:
        chosen = some(of(records_of(name, records), name, benchmarks or []), name, *(benchmarks or []))
        dump({"ok": True, "records": [json.loads(record.to_json()) for record in chosen]})
    else:
        shown = _tables(name, benchmarks or [], records)
        with paged():
            show_tables(shown[-_MOST_SHOWN:])
        if len(shown) > _MOST_SHOWN:
            notify(f"the last {_MOST_SHOWN} of {len(shown)} tables; `reprokit results export --csv` prints all")


@results.command()
def compare(
    a: str = typer.Argument(
        ..., metavar="A", help="The base: a commit, image, node or variant, FIELD=VALUE,... or FILE."
    ),
    b: str = typer.Argument(..., metavar="B", help="What is compared with it."),
    recipe: _Recipe = None,
    metric: Annotated[str | None, typer.Option(metavar="METRIC", help="Only this metric.")] = None,
    as_json: options.Json = False,
) -> None:
    """Compare two sets of results, case by case: the ratio of the medians with its 95 % interval, and a test.

    Exit code 1 if a case of both sets differs, 0 if none does.
    """
    from reprokit.display import notify
    from reprokit.results import comparison
    from reprokit.results.likeness import groups
    from reprokit.results.lines import read
    from reprokit.results.selection import selection
    from reprokit.tables import show_tables

    files = [Path(side) if side.endswith(".jsonl") else None for side in (a, b)]
    every = [] if all(files) else groups_of(recipe)
    sides, chosen = [], set()
    for text, file in zip((a, b), files, strict=True):
        picked = None if file else selection(text, every)
        chosen |= picked.fields if picked else set()
        side = picked.groups(every) if picked else of(groups(read(file or Path(text))), recipe)
        if metric:
            side = [group for group in side if group.identity["metric"] == metric]
        if not side:
            raise UsageError(f"no record is in the set {text!r}", hint="`reprokit results list` shows what there is")
        sides.append(side)
    cases, alone = comparison.compare(sides[0], sides[1], chosen)
    if not cases:
        raise UsageError("the two sets have no case in common: variant, metric, unit or parameters differ in all")
    if as_json:
        dump({"cases": [case.to_json() for case in cases], "alone": alone})
    else:
        with paged():
            show_tables([comparison.as_table(cases, f"{b} against {a}")])
        if alone:
            notify(f"{alone} cases are in one set only")
    if any(case.verdict in ("higher", "lower") for case in cases):
        raise typer.Exit(1)


@results.command()
def claims(
    names: options.WithResults = None,
    as_json: options.Json = False,
) -> None:
    """Judge the papers' claims by the results: reproduced or not, not comparable, not measured.

    Exit code 1 if a claim is not reproduced.
    """
    from reprokit.bench.records import recipes_with_results
    from reprokit.compat.facts import bundled
    from reprokit.display import notify
    from reprokit.recipe.find import load_recipe, split
    from reprokit.results.claims import JudgedClaim, as_lines, judge
    from reprokit.tables import paragraph

    chosen = [split(name)[0] for name in names or []] or recipes_with_results()
    judged: list[JudgedClaim] = []
    for name in dict.fromkeys(chosen):
        recipe = load_recipe(name)
        if not recipe.claims:
            notify(f"{name} has no claims")
        judged += judge(recipe, groups_here(name), bundled())
    if as_json:
        dump({"claims": [claim.to_json() for claim in judged]})
    else:
        with paged():
            for verdict, lines in as_lines(judged):
                for first, line in zip((verdict, *[""] * len(lines)), lines, strict=False):
                    paragraph(line, f"{first:15} ", " " * 18)
    if any(claim.verdict == "not reproduced" for claim in judged):
        raise typer.Exit(1)


@results.command()
def history(
    metric: str = typer.Argument(..., metavar="METRIC"),
    recipe: _Recipe = None,
    plot: options.Plot = None,
    as_json: options.Json = False,
) -> None:
    """Show how a metric went from run to run, for each case and machine."""
    from reprokit.display import notify
    from reprokit.recipe.spelling import nearest
    from reprokit.results.history import lines_of, table
    from reprokit.tables import show_tables

    every = groups_of(recipe)
    history_lines = lines_of(group for group in every if group.identity["metric"] == metric)
    if not history_lines:
        metrics = sorted({group.identity["metric"] for group in every})
        raise UsageError(f"no record of {metric!r}{nearest(metric, metrics)}", hint=f"metrics are {', '.join(metrics)}")
    if plot:
        from reprokit.results.plots import draw_history

        hidden = draw_history(history_lines, metric, plot)
        notify(f"drawn: {plot}{f', without {hidden} of {len(history_lines)} lines' if hidden else ''}")
    if as_json:
        dump([vars(line) for line in history_lines])
    else:
        with paged():
            show_tables([table(history_lines, metric)])


@results.command()
def export(
    name: options.OneRecipe = None,
    benchmarks: options.Benchmarks = None,
    csv: bool = options.flag("--csv", "Comma-separated values."),
    markdown: bool = options.flag("--markdown", "Markdown."),
    latex: bool = options.flag("--latex", "LaTeX, with the package booktabs."),
    records: options.Records = None,
) -> None:
    """Print the tables of `show` for a paper, a page or a spreadsheet."""
    from reprokit.results.formats import FORMATS

    formats = [form for form, given in (("csv", csv), ("markdown", markdown), ("latex", latex)) if given]
    if len(formats) != 1:
        raise UsageError("export needs one format", hint="add --csv, --markdown or --latex")
    document(FORMATS[formats[0]](_tables(name, benchmarks or [], records)))


@results.command()
def prune(
    name: options.RecipeName,
    before: Annotated[
        str | None, typer.Option(metavar="DATE", help="Remove records from before, as 2026-11-22.")
    ] = None,
    last: Annotated[int | None, typer.Option(metavar="N", min=1, help="Keep the last N records of each case.")] = None,
    yes: bool = options.flag("--yes", "Remove without asking."),
) -> None:
    """Remove old records of a recipe or a variant."""
    from reprokit import consent
    from reprokit.results import lines
    from reprokit.results.selection import old

    if (before is None) == (last is None):
        raise UsageError("prune needs one rule", hint="add --before DATE or --last N")
    file = results_file(name)
    recorded = some(records_of(name, None), name)
    removed = old(recorded, before, last)
    if not removed:
        echo(f"nothing to remove: {len(recorded)} records stay ({file})")
        return
    consent.require(f"{len(removed)} of {len(recorded)} records will be removed", "--yes", yes, str(file))
    lines.remove(Path.cwd(), str(file), removed)
    echo(f"{len(removed)} records removed, {len(recorded) - len(removed)} left ({file})")


@results.command()
def schema() -> None:
    """Print the JSON Schema of a record."""
    from reprokit.results.record import json_schema

    dump(json_schema())


def _tables(name: str | None, benchmarks: Sequence[str], file: Path | None) -> list[ReportTable]:
    from reprokit.recipe.find import load_recipe, recipe_names
    from reprokit.results.likeness import groups
    from reprokit.results.tables import sections

    every = groups(records_of(name, file)) if file else groups_of(name)
    kept = some(of(every, name, benchmarks), name, *benchmarks)
    names = {group.identity["recipe"] for group in kept} & set(recipe_names())
    return sections(kept, {recipe: load_recipe(recipe).claims for recipe in names})
