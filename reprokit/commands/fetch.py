"""`reprokit fetch`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from reprokit import completion
from reprokit.commands import _options as options
from reprokit.untrusted.text import dump, echo


def fetch(
    names: Annotated[list[str], options.recipes("Recipes with a lock.")],
    source: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="DIR",
            help="First copy files of this folder, by checksum.",
            autocompletion=completion.files,
        ),
    ] = None,
    data: bool = options.flag("--data", "Also the data of the recipes' benchmarks."),
    as_json: options.Json = False,
) -> None:
    """Download everything that locks name into the store, and the base images onto the engine."""
    from reprokit.display import notify
    from reprokit.engine import Engine
    from reprokit.errors import EngineError
    from reprokit.formatting import size
    from reprokit.image.lock.read import fresh_data, needed_lock
    from reprokit.image.lock.supplies import Supplier
    from reprokit.recipe.find import target as find_target
    from reprokit.supply.fetch.display import FetchDisplay
    from reprokit.supply.fetch.import_local import import_files
    from reprokit.supply.lock.file import complete, lock_path
    from reprokit.supply.mirrors.places import Mirrors
    from reprokit.supply.store import Store

    targets = [find_target(name) for name in names]
    locks = [needed_lock(target) for target in targets]
    inputs = [locked for lock in locks for locked in lock.locked_inputs()]
    if data:
        inputs += [file.locked_input() for target in targets for file in fresh_data(target)]
    store = Store()
    mirrors = Mirrors(store, indexes=[i for target in targets for i in target.variant.wheel_indexes])
    for target in targets:
        store.used(lock_path(target.path))
    engine, absent = None, ""
    try:
        engine = Engine.connect()
    except EngineError as error:
        absent = error.message
    if source:
        taken = import_files(source, inputs, store)
        notify(f"{taken} files copied from {source}")
    with FetchDisplay(sys.stderr) as shown:
        supplier = Supplier(store, mirrors, shown.on_progress)
        found = supplier.files(inputs)
        commits = sum(supplier.commits(lock) for lock in locks)
        if engine:
            for base in (base for lock in locks for base in lock.bases):
                supplier.image(engine, base)
    if data:
        for target in targets:
            complete(lock_path(target.path), store)
    if engine is None and any(base.digest for lock in locks for base in lock.bases):
        notify(f"base images are not fetched: {absent}")
    if as_json:
        stored = {"bytes": found.stored_bytes, "files": found.stored_files}
        dump({"downloaded": {"bytes": found.bytes, "files": found.files, "commits": commits}, "stored": stored})
        return
    echo(
        f"{size(found.bytes)} downloaded ({found.files} files, {commits} git commits); "
        f"{size(found.stored_bytes)} were in the store ({found.stored_files} files)"
    )
