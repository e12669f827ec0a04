"""`reprokit load`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reprokit import completion
from reprokit.commands import _options as options
from reprokit.display import notify
from reprokit.untrusted.terminal import dump, echo


def load(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Bundles, in order.", autocompletion=completion.bundles)
    ],
    force: bool = options.flag("--force", "Load images that this host's driver or GPU cannot run, too."),
    signed_by: options.SignedBy = None,
    trust: bool = options.flag("--trust", "Trust the images as if they were built here."),
    replace: bool = options.flag("--replace", "Move names that belong to other images."),
    yes: bool = options.flag("--yes", "Unpack workspaces of more than 50000 files or 2 GiB."),
    as_json: options.Json = False,
) -> None:
    """Verify bundles and load their images into the engine.

    Everything is verified before the engine gets a byte. Repeat an interrupted load to resume it. Images are
    unverified without --signed-by or --trust: `build` builds them again.
    """
    from contextlib import ExitStack

    from reprokit.bundle import recipes, workspaces
    from reprokit.bundle.inputs import import_inputs
    from reprokit.bundle.load import check_origin, checked
    from reprokit.bundle.load import load as load_images
    from reprokit.engine import Engine
    from reprokit.explain.last import explained
    from reprokit.supply.store import Store

    with explained(), ExitStack() as stack:
        checked_bundles = checked(files, stack)
        bundles = [item.bundle for item in checked_bundles]
        for bundle in bundles:
            check_origin(bundle, signed_by, trust)
        texts = [recipes.of_images(bundle.metadata, bundle.where) for bundle in bundles]
        folders = [stack.enter_context(workspaces.workspaces(bundle, yes)) for bundle in bundles]
        trusted_by = "load --signed-by" if signed_by else "load --trust" if trust else ""
        loaded = load_images(checked_bundles, Engine.connect(), force, replace, trusted_by)
        for text, put in zip(texts, folders, strict=True):
            notify(*recipes.put_unknown(text), *put())
        for item in checked_bundles:
            if inputs := item.bundle.metadata.inputs:
                with (store := Store()).in_use():
                    new = import_inputs(item, inputs, store)
                targets = ", ".join(inputs.targets)
                notify(f"inputs of {targets}: {new.files} new files, {new.repositories} new repositories")
    if as_json:
        dump({"loaded": list(loaded.new), "present": list(loaded.present)})
        return
    for name in loaded.new:
        echo(f"loaded {name}")
    for name in loaded.present:
        echo(f"{name} is present already")
