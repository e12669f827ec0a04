"""`reprokit ps`."""

from __future__ import annotations

import typer

from reprokit.untrusted.text import dump, echo


def ps(as_json: bool = typer.Option(False, "--json", help="Print JSON.")) -> None:
    """List reprokit's containers."""
    from reprokit.container import listing
    from reprokit.engine import Engine

    rows = listing.rows(Engine.connect())
    if as_json:
        dump(rows)
    elif not rows:
        echo("no containers; `reprokit run NAME -- CMD` makes one", err=True)
    else:
        listing.show(rows)
