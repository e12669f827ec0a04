"""`reprokit nodes`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from reprokit import completion
from reprokit.untrusted.text import console, dump

if TYPE_CHECKING:
    from reprokit.nodes.survey import NodeAnswer

_COLUMNS = ("NODE", "STATE", "ENGINE", "GPUS", "DRIVER", "FREE", "IMAGES")


def nodes(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NODE...", help="Default: all configured nodes.", autocompletion=completion.nodes),
    ] = None,
    timeout: float = typer.Option(
        8, "--timeout", min=1, metavar="SECONDS", help="Limit for the login, and for the answer."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """List the nodes: reachable or not, engine, GPUs, free space, images of recipes.

    Asks all nodes at once. The note after an image says how it differs from the recipe and lock here. A node that is
    down is no failure; exit code 4 where none answers.
    """
    from reprokit.commands._shown import status
    from reprokit.errors import SourceError, UsageError
    from reprokit.nodes import survey
    from reprokit.nodes.config import configured, find

    chosen = [find(name) for name in names] if names else configured()
    if not chosen:
        raise UsageError(
            "no nodes are configured",
            hint="name one, `reprokit nodes user@host`, or write them under `nodes:` (`reprokit config --init`)",
        )
    with status(f"asking {len(chosen)} node{'s' if len(chosen) > 1 else ''}"):
        answers = list(survey.survey(chosen, timeout))
    if as_json:
        dump([survey.as_json(answer) for answer in answers])
    else:
        _show(answers)
    if not any(answer.seen for answer in answers):
        raise SourceError("no node answers", hint="the table says why")


def _show(answers: Sequence[NodeAnswer]) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in _COLUMNS:
        table.add_column(column, overflow="fold")
    for answer in answers:
        table.add_row(*_row(answer))
    console(width=200).print(table)


def _row(answer: NodeAnswer) -> tuple[str, ...]:
    from reprokit.formatting import size
    from reprokit.nodes import survey

    seen, engine = answer.seen, answer.inventory
    if seen is None:
        return answer.node.name, f"down: {answer.error}", "", "", "", "", ""
    state = [answer.error or "up"]
    if seen.nested:
        state.append("the login is in a container")
    images = survey.images(engine.images) if engine else []
    cards = Counter(gpu.name for gpu in seen.gpus if gpu.name)
    return (
        answer.node.name,
        ", ".join(state),
        f"{engine.version}{', containerd' if engine.containerd else ''}" if engine else "",
        "\n".join(name if count == 1 else f"{count} x {name}" for name, count in cards.items()),
        survey.driver(seen.gpus),
        size(engine.free) if engine and engine.free is not None else "",
        "\n".join(f"{image.label}{_aside(image.standing)}" for image in images),
    )


def _aside(standing: str) -> str:
    return {"current": "", "": " (no recipe of it here)"}.get(standing, f" ({standing})")
