"""`reprokit render`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reprokit import completion
from reprokit.untrusted.text import document, echo


def render(
    name: Annotated[str, typer.Argument(metavar="NAME[:VARIANT]", autocompletion=completion.targets)],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="DIR", help="Write DIR/Dockerfile instead of printing it.")
    ] = None,
) -> None:
    """Write the Dockerfile of a recipe."""
    from reprokit.errors import UsageError
    from reprokit.image.render import render as rendered
    from reprokit.recipe.find import target

    chosen = target(name)
    text = rendered(chosen).dockerfile
    if output is None:
        document(text)
        return
    try:
        output.mkdir(parents=True, exist_ok=True)
        (output / "Dockerfile").write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write the Dockerfile: {error.strerror}", str(output)) from None
    echo(f"wrote {output / 'Dockerfile'}; build it with: docker build -t {chosen.label} {output}", err=True)
