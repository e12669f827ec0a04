"""`reprokit claims`."""

from __future__ import annotations

from typing import Annotated

import typer

from reprokit import completion
from reprokit.untrusted.text import dump, paged


def claims(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Recipes; all with results by default.", autocompletion=completion.targets),
    ] = None,
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Judge the papers' claims by the results: reproduced or not, not comparable, not measured.

    Exit code 1 where a claim is not reproduced.
    """
    from reprokit.commands.results import judged_claims
    from reprokit.results.claims import as_lines
    from reprokit.tables import paragraph

    found = judged_claims(names or [])
    if as_json:
        dump({"claims": [each.to_json() for each in found]})
    else:
        with paged():
            for verdict, lines in as_lines(found):
                for first, line in zip((verdict, *[""] * len(lines)), lines, strict=False):
                    paragraph(line, f"{first:15} ", " " * 18)
    if any(each.verdict == "not reproduced" for each in found):
        raise typer.Exit(1)
