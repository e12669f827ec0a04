"""`reprokit report`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reprokit import completion
from reprokit.errors import UsageError
from reprokit.untrusted.text import echo

if TYPE_CHECKING:
    from reprokit.recipe.model import Recipe
    from reprokit.results.record import Record
    from reprokit.results.report import RecipeReport, VariantFacts
    from reprokit.tables import ReportTable


def report(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Recipes; all with results by default.", autocompletion=completion.targets),
    ] = None,
    *,
    output: Annotated[
        Path,
        typer.Option(
            "-o",
            "--output",
            metavar="DIR",
            help="Folder of the report; made if missing.",
            autocompletion=completion.files,
        ),
    ],
    records: Annotated[
        Path | None,
        typer.Option(
            "--records",
            metavar="FILE",
            help="Read FILE instead: records, or what a benchmark printed.",
            autocompletion=completion.files,
        ),
    ] = None,
) -> None:
    """Write a page about results: environment, claims, plots, machines, commands, artifact evaluation.

    DIR/index.html needs no network and no JavaScript; DIR/summary.md is for the summary of a job on GitHub.
    """
    from reprokit.commands.results import recipes_with_results
    from reprokit.recipe.find import split

    chosen = [split(name)[0] for name in names or []] or recipes_with_results()
    if records and len(chosen) != 1:
        raise UsageError("--records needs one recipe", hint="name it: `reprokit report NAME --records FILE -o DIR`")
    write(list(dict.fromkeys(chosen)), output, output, records)
    echo(f"{output / 'index.html'}")


def write(
    names: Sequence[str],
    named: Path | None,
    usual: Path,
    records: Path | None = None,
    steps: ReportTable | None = None,
) -> None:
    """Write the report of recipes into the folder that the user `named`, or into the `usual` one.

    Raises UsageError, and EngineError if the folder cannot be written.
    """
    from reprokit.host.disk import unwritable
    from reprokit.results.report import as_html, as_summary
    from reprokit.results.report import report as page_of
    from reprokit.untrusted.files import output_folder

    plots: dict[str, bytes] = {}
    page = page_of([_recipe(name, plots, records, steps) for name in names])
    texts = {"index.html": as_html(page), "summary.md": as_summary(page)}
    encoded = {name: text.encode("utf-8", "backslashreplace") for name, text in texts.items()}
    try:
        with output_folder(named, usual) as opened:
            for path, content in {**{f"plots/{name}": svg for name, svg in plots.items()}, **encoded}.items():
                with opened.replacing(path) as file:
                    file.write(content)
    except OSError as error:
        raise unwritable(error, "the report", named or usual) from None


def _recipe(name: str, plots: dict[str, bytes], file: Path | None, steps: ReportTable | None) -> RecipeReport:
    """A recipe's part; its files are added to `plots`."""
    from reprokit.commands.results import records_of, results_file, some
    from reprokit.compat.facts import bundled
    from reprokit.recipe.find import load_recipe
    from reprokit.results.claims import judge
    from reprokit.results.likeness import groups
    from reprokit.results.report import recipe_report

    recipe = load_recipe(name)
    found = records_of(name, file) if file or results_file(name).exists() else []
    found = some(found, name) if file else found
    judged = judge(recipe, groups(found), bundled())
    attention = _attention(found)
    plots |= attention
    pictures = [(Path(name).stem.replace("-", " "), svg) for name, svg in attention.items() if name.endswith(".svg")]
    return recipe_report(recipe, found, judged, _variants(name, recipe, found), pictures, steps)


def _variants(name: str, recipe: Recipe, records: Sequence[Record]) -> list[VariantFacts]:
    """The variants that were measured, or the default one, with lock and findings."""
    from reprokit.compat.evaluate import evaluate
    from reprokit.compat.facts import bundled
    from reprokit.compat.stack import stack_of
    from reprokit.image.lock.fit import resolved_versions
    from reprokit.image.lock.read import variant_lock
    from reprokit.recipe.find import target
    from reprokit.results.report import VariantFacts

    measured = {record.variant for record in records} & set(recipe.variants)
    found = []
    for variant in sorted(measured) or [recipe.default_variant]:
        chosen = target(f"{name}:{variant}")
        # Without the host: the report is about the stack, and the same on every machine.
        findings = evaluate(bundled(), stack_of(chosen.variant, resolved=resolved_versions(chosen)))
        words = (f"{each.severity}: {each.reason}" for each in findings if each.severity != "info")
        images = [record.image_digest for record in records if record.variant == variant]
        found.append(VariantFacts(variant, variant_lock(chosen), tuple(words), _sizes(images[-1] if images else "")))
    return found


def _sizes(image: str) -> Mapping[str, int]:
    from reprokit.engine import Engine
    from reprokit.errors import ReprokitError
    from reprokit.image.sizes import sizes_by_block

    if not re.fullmatch("sha256:[0-9a-f]{64}", image):
        return {}
    try:
        engine = Engine.connect()
        return sizes_by_block(engine.history(image)) if engine.image(image) else {}
    except ReprokitError:
        return {}


def _attention(records: Sequence[Record]) -> dict[str, bytes]:
    """The plots of the attention benchmark, by file name."""
    from reprokit.results.attention import measured
    from reprokit.results.attention_plots import draw

    found = measured(records)
    return draw(found) if found.cells else {}
