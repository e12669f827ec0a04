"""`reprokit load`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reprokit import completion
from reprokit.commands._shown import progress, say
from reprokit.untrusted.text import echo


def load(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Bundles, in order.", autocompletion=completion.bundles)
    ],
    force: bool = typer.Option(False, "--force", help="Load also what this host's driver or GPU cannot run."),
    signed_by: Annotated[
        Path | None,
        typer.Option(metavar="KEYS", help="Refuse what no key of this file signed: a public key, or allowed signers."),
    ] = None,
    trust: bool = typer.Option(False, "--trust", help="Trust the images as if they were built here."),
    replace: bool = typer.Option(False, "--replace", help="Move names that are those of other images."),
    yes: bool = typer.Option(False, "--yes", help="Unpack workspaces of more than 50000 files or 2 GiB."),
) -> None:
    """Check bundles and give their images to the engine.

    Everything is checked before the engine sees a byte. An interrupted load is repeated by the same command. Images
    are unverified unless one of KEYS signed the bundle or --trust says otherwise: `build` builds them anew.
    """
    from contextlib import ExitStack

    from reprokit.bundle import brought, recipes
    from reprokit.bundle.load import Allowed, check_names, checked, signer
    from reprokit.bundle.load import load as give
    from reprokit.engine import Engine
    from reprokit.supply.store import Store

    with ExitStack() as stack:
        found = checked(files, stack, lambda path: progress(f"checking {path.name}"))
        bundles = [each.bundle for each in found]
        for bundle in bundles:
            if signature := signer(bundle, signed_by):
                unknown = "" if signed_by or trust else ", a key that --signed-by has not named: images are unverified"
                say(f"{bundle.path.name} is signed by {signature}{unknown}")
            check_names(bundle, trust or signed_by is not None)
        texts = [recipes.carried(bundle.metadata, bundle.where) for bundle in bundles]
        folders = [stack.enter_context(brought.workspaces(bundle, yes, say)) for bundle in bundles]
        engine = Engine.connect()
        allowed = Allowed(force, replace, "load --signed-by" if signed_by else "load --trust" if trust else "")
        loaded = give(found, engine, engine.host.gpus(), allowed, say, lambda name: progress(f"loading {name}"))
        for bundle, text, put in zip(bundles, texts, folders, strict=True):
            say(*recipes.put(text), *put())
            brought.inputs(bundle, Store(), Engine.connect, say)
    for name in loaded.new:
        echo(f"loaded {name}")
    for name in loaded.there:
        echo(f"{name} is here already")
