"""`reprokit build`."""

from __future__ import annotations

import sys

import typer

from reprokit import completion


def build(
    name: str = typer.Argument(..., metavar="NAME[:VARIANT]", autocompletion=completion.targets),
    force: bool = typer.Option(False, "--force", help="Go on past errors of `check`; a label of the image says so."),
    no_cache: bool = typer.Option(False, "--no-cache", help="Build every step anew."),
    keep_failed: bool = typer.Option(
        False, "--keep-failed", help="Keep the state before a step that fails, for `reprokit shell --failed`."
    ),
    builder: str = typer.Option("classic", "--builder", help="classic: the engine's own; buildkit: the Docker CLI's."),
) -> None:
    """Build the image of a recipe."""
    from reprokit.engine import Engine
    from reprokit.image.build import Options
    from reprokit.image.build import build as build_image
    from reprokit.image.findings import errors_of
    from reprokit.image.progress import display
    from reprokit.recipe.find import target as find_target

    target = find_target(name)
    forced = errors_of(target, force, lambda line: typer.echo(line, err=True))
    engine = Engine.connect()
    with display(sys.stderr) as shown:
        options = Options(builder, no_cache, keep_failed, forced)
        result = build_image(engine, target, options, shown.watch, shown.traffic)
    if result.built:
        typer.echo(f"{result.name} built in {result.seconds:.0f} s ({result.image_id[:19]})")
    else:
        typer.echo(f"{result.name} is up to date ({result.image_id[:19]})")
