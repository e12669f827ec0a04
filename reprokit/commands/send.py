"""`reprokit send`."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from reprokit import completion
from reprokit.untrusted.text import echo

if TYPE_CHECKING:
    from reprokit.config.nodes import Node
    from reprokit.nodes.send import Outcome


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
        typer.Option(
            "--to", metavar="NODE", help="A node that no configuration names.", autocompletion=completion.nodes
        ),
    ] = None,
    jump: str = typer.Option("", "-J", "--jump", metavar="HOST", help="Go through this host, as `ssh -J` does."),
    replace: bool = typer.Option(False, "--replace", help="Move names that belong to other images there."),
) -> None:
    """Send images to other machines through ssh: only the layers that each lacks."""
    from reprokit import consent, paths
    from reprokit.engine import Engine
    from reprokit.errors import UsageError
    from reprokit.formatting import size
    from reprokit.nodes import send as sending
    from reprokit.nodes.choose import images_and_nodes
    from reprokit.nodes.delivery import NameTaken
    from reprokit.nodes.display import display

    engine = Engine.connect()
    names, nodes = images_and_nodes(words, to or [], jump, lambda name: engine.image(name) is not None)

    def bring(nodes: list[Node], replace: bool) -> dict[str, Outcome]:
        with display(sys.stderr) as shown:
            folder = paths.private(paths.home() / "send")
            found = sending.send(engine, names, nodes, folder, replace, shown.watch, shown.packing)
        return {outcome.node: outcome for outcome in found}

    done = bring(nodes, replace)
    taken = [node for node in nodes if isinstance(done[node.name].error, NameTaken)]
    agreed = []
    for node in taken:
        with suppress(UsageError):
            consent.require(f"{node.name}: {done[node.name].error}", "--replace", False)
            agreed.append(node)
    outcomes = [*(done | (bring(agreed, True) if agreed else {})).values()]
    for outcome in outcomes:
        if outcome.error and len(outcomes) > 1:
            echo(f"{outcome.node}: failed: {outcome.error.message}", err=True)
            if outcome.error.hint:
                echo(f"  {outcome.error.hint}", err=True)
        elif not outcome.error:
            echo(f"{outcome.node}: {'has them already' if outcome.had else f'done, {size(outcome.sent)} sent'}")
    sending.raise_for(outcomes)
