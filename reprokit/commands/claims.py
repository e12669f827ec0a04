"""`reprokit claims`."""

from __future__ import annotations

from typing import Annotated

import typer

from reprokit import completion
from reprokit.commands import _options as options
from reprokit.display import notify
from reprokit.untrusted.text import dump, paged


def claims(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Recipes; all with results by default.", autocompletion=completion.targets),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Judge the papers' claims by the results: reproduced or not, not comparable, not measured.

    Exit code 1 where a claim is not reproduced.
    """
    from reprokit.bench.records import recipes_with_results, results_file
    from reprokit.compat.facts import bundled
    from reprokit.recipe.find import load_recipe, split
    from reprokit.results.claims import JudgedClaim, as_lines, judge
    from reprokit.results.likeness import groups
    from reprokit.results.lines import read
    from reprokit.tables import paragraph

    chosen = [split(name)[0] for name in names or []] or recipes_with_results()
    found: list[JudgedClaim] = []
    for name in dict.fromkeys(chosen):
        recipe, file = load_recipe(name), results_file(name)
        if not recipe.claims:
            notify(f"{name} has no claims")
        found += judge(recipe, groups(read(file)) if file.exists() else [], bundled())
    if as_json:
        dump({"claims": [each.to_json() for each in found]})
    else:
        with paged():
            for verdict, lines in as_lines(found):
                for first, line in zip((verdict, *[""] * len(lines)), lines, strict=False):
                    paragraph(line, f"{first:15} ", " " * 18)
    if any(each.verdict == "not reproduced" for each in found):
        raise typer.Exit(1)
