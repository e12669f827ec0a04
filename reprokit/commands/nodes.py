"""`reprokit nodes`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from reprokit import completion
from reprokit.commands import _options as options
from reprokit.formatting import counted
from reprokit.untrusted.terminal import dump

if TYPE_CHECKING:
    from reprokit.nodes.survey import NodeAnswer

_COLUMNS = ("node", "state", "engine", "GPUs", "driver", "free", "images")


def nodes(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NODE...", help="Default: all configured nodes.", autocompletion=completion.nodes),
    ] = None,
    timeout: float = typer.Option(
        8, "--timeout", min=1, metavar="SECONDS", help="Limit for the login, and for the answer."
    ),
    as_json: options.Json = False,
) -> None:
    """List the nodes: reachable or not, engine, GPUs, free space, images of recipes.

    Asks all nodes at once. The note after an image says how it differs from the recipe and lock here. A node that is
    down is no failure; exit code 4 if none answers.
    """
    from reprokit import config
    from reprokit.display import status
    from reprokit.errors import SourceError, UsageError
    from reprokit.nodes import survey
    from reprokit.nodes.config import find
    from reprokit.tables import table

    chosen = [find(name) for name in names] if names else list(config.load().nodes)
    if not chosen:
        raise UsageError(
            "no nodes are configured",
            hint="name one, `reprokit nodes user@host`, or write them under `nodes:` (`reprokit config --init`)",
        )
    with status(f"asking {counted(len(chosen), 'node')}"):
        answers = list(survey.survey(chosen, timeout))
    if as_json:
        dump([survey.as_json(answer) for answer in answers])
    else:
        table(_COLUMNS, [_row(answer) for answer in answers])
    if not any(answer.seen for answer in answers):
        raise SourceError("no node answers", hint="the table says why")


def _row(answer: NodeAnswer) -> tuple[str, ...]:
    from reprokit.formatting import size
    from reprokit.nodes import survey

    seen, engine = answer.seen, answer.inventory
    if seen is None:
        return answer.node.name, f"down: {answer.error}", "", "", "", "", ""
    state = [answer.error or "up"]
    if seen.nested:
        state.append("the login is in a container")
    images = survey.images_of_recipes(engine.images) if engine else []
    cards = Counter(gpu.name for gpu in seen.gpus if gpu.name)
    return (
        answer.node.name,
        ", ".join(state),
        f"{engine.version}{', containerd' if engine.containerd else ''}" if engine else "",
        "\n".join(name if count == 1 else f"{count} x {name}" for name, count in cards.items()),
        survey.driver(seen.gpus),
        size(engine.free) if engine and engine.free is not None else "",
        "\n".join(f"{image.label}{_aside(image.freshness)}" for image in images),
    )


def _aside(freshness: str) -> str:
    return {"current": "", "": " (no recipe of it here)"}.get(freshness, f" ({freshness})")
