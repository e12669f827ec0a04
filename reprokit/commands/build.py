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
    force: bool = typer.Option(
        False, "--force", help="Build despite errors of `check`; a label of the image lists them."
    ),
    no_cache: bool = typer.Option(False, "--no-cache", help="Run every step again."),
    keep_failed: bool = typer.Option(
        False, "--keep-failed", help="Keep the state before the failed step, for `reprokit shell --failed`."
    ),
    offline: bool = typer.Option(False, "--offline", help="Use no network, only the store."),
    drift: bool = typer.Option(
        False,
        "--drift",
        help="Replace locked apt packages that no mirror has any more by newer ones; a label lists them.",
    ),
    record: bool = typer.Option(
        False, "--record", help="Let the build download more than its lock names, and list that for the recipe."
    ),
    builder: str = typer.Option("classic", "--builder", help="classic: the engine's own; buildkit: the Docker CLI's."),
) -> None:
    """Build the image of a recipe."""
    from reprokit.engine import Engine
    from reprokit.image.build import BuildOptions
    from reprokit.image.build import build as build_image
    from reprokit.image.findings import errors_of
    from reprokit.image.progress import display
    from reprokit.recipe.find import target as find_target

    target = find_target(name)
    forced = errors_of(target, force, lambda line: echo(line, err=True))
    engine = Engine.connect()
    with display(sys.stderr) as shown:
        options = BuildOptions(
            builder=builder,
            no_cache=no_cache or record,  # a cached step downloads nothing that could be recorded
            keep_failed=keep_failed,
            offline=offline,
            drift=drift,
            record=record,
            forced=forced,
        )
        result = build_image(engine, target, options, shown.progress, shown.traffic)
    if record:
        _print_undeclared(target, result.undeclared)
    if result.built:
        echo(f"{result.name} built in {result.seconds:.0f} s ({result.image_id[:19]})")
    else:
        echo(f"{result.name} is up to date ({result.image_id[:19]})")


def _print_undeclared(target: Target, asked: Sequence[str]) -> None:
    if not asked:
        echo(f"{target.label} downloads nothing that its lock does not name")
        return
    echo(f"{target.label} downloads these, which its recipe does not declare:")
    for line in asked:
        echo(f"  {line}")
