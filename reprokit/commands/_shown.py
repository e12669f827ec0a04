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
    """The target's image, built with its progress shown where it is missing or its inputs have changed."""
    from reprokit.image.build import Options, build
    from reprokit.image.progress import display

    with display(sys.stderr) as shown:
        return build(engine, target, Options(), shown.watch, shown.traffic)
