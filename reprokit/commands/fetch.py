"""`reprokit fetch`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from reprokit.commands import _options as options
from reprokit.untrusted.terminal import dump, echo


def fetch(
    names: Annotated[list[str], options.recipes("Recipes with a lock.")],
    source: Annotated[
        Path | None, options.file("First copy files of this folder, by checksum.", "--from", metavar="DIR")
    ] = None,
    data: bool = options.flag("--data", "Also the data of the recipes' benchmarks."),
    as_json: options.Json = False,
) -> None:
    """Download everything that locks name into the store, and the base images onto the engine."""
    from reprokit.formatting import size
    from reprokit.image.lock.supplies import fetch as fetch_all
    from reprokit.recipe.find import target as find_target

    fetched, commits = fetch_all([find_target(name) for name in names], source, data)
    if as_json:
        stored = {"bytes": fetched.stored_bytes, "files": fetched.stored_files}
        dump({"downloaded": {"bytes": fetched.bytes, "files": fetched.files, "commits": commits}, "stored": stored})
        return
    echo(
        f"{size(fetched.bytes)} downloaded ({fetched.files} files, {commits} git commits); "
        f"{size(fetched.stored_bytes)} were in the store ({fetched.stored_files} files)"
    )
