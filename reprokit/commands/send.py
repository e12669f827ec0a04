"""`reprokit send`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from reprokit import completion


def send(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME[:VARIANT]... NODE...",
            help="Images, and where to: user@host[:port], a configured node, a name of the ssh configuration.",
            autocompletion=completion.images_and_nodes,
        ),
    ],
    to: Annotated[
        list[str] | None,
        typer.Option("--to", metavar="NODE", help="A node, whatever it looks like.", autocompletion=completion.nodes),
    ] = None,
    jump: str = typer.Option("", "-J", "--jump", metavar="HOST", help="Go through this host, as `ssh -J` does."),
) -> None:
    """Bring images to other machines through ssh: only the layers that each lacks."""
    from reprokit import paths
    from reprokit.engine import Engine
    from reprokit.figures import size
    from reprokit.nodes import send as sending
    from reprokit.nodes.choose import images_and_nodes
    from reprokit.nodes.display import display

    engine = Engine.connect()
    names, nodes = images_and_nodes(words, to or [], jump, lambda name: engine.image(name) is not None)
    with display(sys.stderr) as shown:
        outcomes = sending.send(engine, names, nodes, paths.home() / "send", shown.watch, shown.packing)
    for outcome in outcomes:
        if outcome.error and len(outcomes) > 1:
            typer.echo(f"{outcome.node}: failed: {outcome.error.message}", err=True)
            if outcome.error.hint:
                typer.echo(f"  {outcome.error.hint}", err=True)
        elif not outcome.error:
            typer.echo(f"{outcome.node}: {'has them already' if outcome.had else f'done, {size(outcome.sent)} sent'}")
    sending.raise_for(outcomes)
