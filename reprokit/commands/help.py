"""`reprokit help`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from reprokit.untrusted.terminal import console, document, paged


def _pages() -> dict[str, Path]:
    """The pages of docs/ by their names."""
    from reprokit import paths

    pages = {page.stem: page for page in (paths.data_root() / "docs").glob("*.md") if page.stem != "index"}
    return dict(sorted(pages.items()))


def topics(incomplete: str) -> list[str]:
    return [name for name in _pages() if name.startswith(incomplete)]


def help(
    context: typer.Context,
    topic: Annotated[
        str | None, typer.Argument(metavar="[TOPIC|VERB]", help="A page, or a verb.", autocompletion=topics)
    ] = None,
) -> None:
    """Show a page of the documentation; without a topic, list them."""
    from reprokit.errors import UsageError
    from reprokit.recipe.spelling import nearest

    pages, root = _pages(), context.find_root()
    verbs: Any = root.command
    if topic is None:
        _list(pages)
    elif topic in pages:
        with paged():
            _show(pages[topic].read_text(encoding="utf-8"))
    elif topic in verbs.list_commands(root):
        _, command, _ = verbs.resolve_command(root, [topic])
        command.make_context(topic, ["--help"], parent=root)
    else:
        raise UsageError(f"unknown topic {topic!r}{nearest(topic, pages)}", hint=f"topics are {', '.join(pages)}")


def _list(pages: dict[str, Path]) -> None:
    from reprokit.tables import table

    heads = [page.read_text(encoding="utf-8").partition("\n")[0] for page in pages.values()]
    table(("topic", "page"), [(name, head.removeprefix("# ")) for name, head in zip(pages, heads, strict=True)])


def _show(text: str) -> None:
    if not sys.stdout.isatty():
        document(text)
        return
    from rich.markdown import Markdown

    console().print(Markdown(text, hyperlinks=False))
