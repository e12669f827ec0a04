"""What `bench` and `smoke` show while they work; it goes to standard error, figures and verdicts to standard output."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from reprokit.engine import Engine
    from reprokit.image.build import BuildResult
    from reprokit.recipe.find import Target


def say(*lines: str) -> None:
    for line in lines:
        typer.echo(line, err=True)


@contextmanager
def status(text: str) -> Iterator[None]:
    """`text` with a spinner for as long as the work takes; a plain line where there is no terminal."""
    if not sys.stderr.isatty():
        say(text)
        yield
        return
    from rich.console import Console
    from rich.markup import escape

    with Console(stderr=True).status(escape(text)):
        yield


def built(engine: Engine, target: Target) -> BuildResult:
    """The target's image, built with its progress shown where it is missing or its inputs have changed.

    Raises WorkFailed where `check` finds errors, unless the image was built with `--force` before.
    """
    from reprokit.engine import LABEL
    from reprokit.image.build import Options, build
    from reprokit.image.findings import errors_of
    from reprokit.image.labels import image_name
    from reprokit.image.progress import display

    there = engine.image(image_name(target)) or {}
    force = f"{LABEL}.forced" in ((there.get("Config") or {}).get("Labels") or {})
    forced = errors_of(target, force, say)
    with display(sys.stderr) as shown:
        return build(engine, target, Options(forced=forced), shown.watch, shown.traffic)
