"""`reprokit report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from reprokit.commands import _options as options
from reprokit.errors import UsageError
from reprokit.untrusted.terminal import echo


def report(
    output: Annotated[Path, options.file("Folder of the report; made if missing.", "-o", "--output", metavar="DIR")],
    names: options.WithResults = None,
    records: options.Records = None,
) -> None:
    """Write a page about results: environment, claims, plots, machines, commands, artifact evaluation.

    DIR/index.html needs no network and no JavaScript; DIR/summary.md is for the summary of a job on GitHub.
    """
    from reprokit.bench.records import recipes_with_results
    from reprokit.bench.report import write
    from reprokit.recipe.find import split

    chosen = [split(name)[0] for name in names or []] or recipes_with_results()
    if records and len(chosen) != 1:
        raise UsageError("--records needs one recipe", hint="name it: `reprokit report NAME --records FILE -o DIR`")
    write(list(dict.fromkeys(chosen)), output, output, records)
    echo(f"{output / 'index.html'}")
