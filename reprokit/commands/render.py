"""`reprokit render`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from reprokit import completion
from reprokit.commands import _options as options
from reprokit.untrusted.text import document, dump, echo


def render(
    name: options.RecipeName,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="DIR",
            help="Write DIR/Dockerfile, and the patches that it copies, instead of printing it.",
            autocompletion=completion.files,
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Write the Dockerfile of a recipe."""
    from reprokit.host.disk import unwritable
    from reprokit.image.context import write_context
    from reprokit.image.render import render as rendered
    from reprokit.recipe.find import target

    chosen = target(name)
    found = rendered(chosen)
    if output is None:
        if as_json:
            text, spans = found.dockerfile, [list(span) for span in found.spans]
            dump({"recipe": chosen.label, "dockerfile": text, "blocks": spans})
        else:
            document(found.dockerfile)
        return
    try:
        output.mkdir(parents=True, exist_ok=True)
        write_context(output, found.dockerfile, found.context)
    except OSError as error:
        raise unwritable(error, "the Dockerfile", output) from None
    if as_json:
        dump({"recipe": chosen.label, "file": str(output / "Dockerfile")})
        return
    command = shlex.join(["docker", "build", "-t", chosen.label, str(output)])
    echo(f"wrote {output / 'Dockerfile'}; build it with: {command}", err=True)
