"""`reprokit build`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from reprokit import completion
from reprokit.untrusted.text import echo

if TYPE_CHECKING:
    from reprokit.recipe.find import Target


def build(
    name: str = typer.Argument(..., metavar="NAME[:VARIANT]", autocompletion=completion.targets),
    force: bool = typer.Option(False, "--force", help="Go on past errors of `check`; a label of the image says so."),
    no_cache: bool = typer.Option(False, "--no-cache", help="Build every step anew."),
    keep_failed: bool = typer.Option(
        False, "--keep-failed", help="Keep the state before a step that fails, for `reprokit shell --failed`."
    ),
    offline: bool = typer.Option(False, "--offline", help="Ask no network: everything comes from the store."),
    drift: bool = typer.Option(
        False, "--drift", help="Take what follows locked apt packages that no mirror has any more; a label says so."
    ),
    record: bool = typer.Option(
        False, "--record", help="Let the build ask for more than its lock names, and list that for the recipe."
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
    forced = errors_of(target, force, lambda line: echo(line, err=True))
    engine = Engine.connect()
    with display(sys.stderr) as shown:
        # What a cached step once asked for cannot be heard.
        fresh = no_cache or record
        options = Options(builder, fresh, keep_failed, offline, drift, record, forced)
        result = build_image(engine, target, options, shown.watch, shown.traffic)
    if record:
        _print_undeclared(target, result.undeclared)
    if result.built:
        echo(f"{result.name} built in {result.seconds:.0f} s ({result.image_id[:19]})")
    else:
        echo(f"{result.name} is up to date ({result.image_id[:19]})")


def _print_undeclared(target: Target, asked: Sequence[str]) -> None:
    if not asked:
        echo(f"{target.label} asks for nothing that its lock does not name")
        return
    echo(f"{target.label} asked for what its recipe does not declare:")
    for line in asked:
        echo(f"  {line}")
