"""Write the report of recipes: a page and a summary."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from reprokit.bench.records import records_of, results_file, some
from reprokit.compat.facts import bundled
from reprokit.engine import Engine
from reprokit.errors import ReprokitError
from reprokit.host.disk import unwritable
from reprokit.image.lock.fit import findings
from reprokit.image.lock.read import variant_lock
from reprokit.image.sizes import sizes_by_block
from reprokit.recipe.find import load_recipe, target
from reprokit.recipe.model import Recipe
from reprokit.results.claims import judge
from reprokit.results.likeness import groups
from reprokit.results.record import Record
from reprokit.results.report import RecipeReport, VariantFacts, as_html, as_summary, recipe_report
from reprokit.results.report import report as page_of
from reprokit.tables import ReportTable
from reprokit.untrusted.files import output_folder


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
    page = page_of([_recipe(name, records, steps) for name in names])
    try:
        with output_folder(named, usual) as opened:
            for path, text in {"index.html": as_html(page), "summary.md": as_summary(page)}.items():
                with opened.replacing(path) as file:
                    file.write(text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise unwritable(error, "the report", named or usual) from None


def _recipe(name: str, file: Path | None, steps: ReportTable | None) -> RecipeReport:
    recipe = load_recipe(name)
    records = records_of(name, file) if file or results_file(name).exists() else []
    records = some(records, name) if file else records
    judged = judge(recipe, groups(records), bundled())
    return recipe_report(recipe, records, judged, _variants(name, recipe, records), steps)


def _variants(name: str, recipe: Recipe, records: Sequence[Record]) -> list[VariantFacts]:
    """The variants that were measured, or the default one, with lock and findings."""
    measured = {record.variant for record in records} & set(recipe.variants)
    facts = []
    for variant in sorted(measured) or [recipe.default_variant]:
        chosen = target(f"{name}:{variant}")
        # Without the host, so that the report is the same on every machine.
        words = (f"{f.severity}: {f.reason}" for f in findings(chosen) if f.severity != "info")
        images = [record.image_digest for record in records if record.variant == variant]
        facts.append(VariantFacts(variant, variant_lock(chosen), tuple(words), _sizes(images[-1] if images else "")))
    return facts


def _sizes(image: str) -> Mapping[str, int]:
    if not re.fullmatch("sha256:[0-9a-f]{64}", image):
        return {}
    try:
        engine = Engine.connect()
        return sizes_by_block(engine.history(image)) if engine.image(image) else {}
    except ReprokitError:
        return {}
