"""`reprokit send`."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from reprokit import completion
from reprokit.commands import _options as options
from reprokit.untrusted.terminal import dump, echo

if TYPE_CHECKING:
    from reprokit.config.nodes import Node
    from reprokit.nodes.send import Delivery


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
            "--to",
            metavar="NODE",
            help="A host to use as a node although no configuration names it.",
            autocompletion=completion.nodes,
        ),
    ] = None,
    jump: str = typer.Option("", "-J", "--jump", metavar="HOST", help="Go through this host, as `ssh -J` does."),
    replace: bool = options.flag("--replace", "Move names that belong to other images there."),
    as_json: options.Json = False,
) -> None:
    """Send images to other machines through ssh: only the layers that each lacks."""
    from reprokit import consent, paths
    from reprokit.engine import Engine
    from reprokit.errors import UsageError
    from reprokit.formatting import size
    from reprokit.nodes import send as sending
    from reprokit.nodes.config import images_and_nodes
    from reprokit.nodes.send import NameTaken, NodesDisplay

    engine = Engine.connect()
    names, nodes = images_and_nodes(words, to or [], jump, lambda name: engine.image(name) is not None)

    def deliver(nodes: list[Node], replace: bool) -> dict[str, Delivery]:
        with NodesDisplay(sys.stderr) as shown:
            folder = paths.private(paths.home() / "send")
            deliveries = sending.send(engine, names, nodes, folder, replace, shown.nodes, shown.packing)
        return {delivery.node.name: delivery for delivery in deliveries}

    done = deliver(nodes, replace)
    taken = [node for node in nodes if isinstance(done[node.name].error, NameTaken)]
    agreed = []
    for node in taken:
        with suppress(UsageError):
            consent.require(f"{node.name}: {done[node.name].error}", "--replace", False)
            agreed.append(node)
    done |= deliver(agreed, True) if agreed else {}
    if as_json:
        rows = []
        for name, delivery in done.items():
            error = delivery.error.message if delivery.error else None
            rows.append({"node": name, "present": delivery.had, "bytes": delivery.sent, "error": error})
        dump({"ok": not any(row["error"] for row in rows), "nodes": rows})
    for name, delivery in () if as_json else done.items():
        if delivery.error and len(done) > 1:
            echo(f"{name}: failed: {delivery.error.message}", err=True)
            if delivery.error.hint:
                echo(f"  {delivery.error.hint}", err=True)
        elif not delivery.error:
            echo(f"{name}: {'has them already' if delivery.had else f'done, {size(delivery.sent)} sent'}")
    sending.raise_for([*done.values()])
