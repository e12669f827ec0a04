"""Recreate a container with other settings and the same files, as its ports and mounts cannot change."""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from typing import Any

from reprokit.container import names
from reprokit.container.launch import Start, launch
from reprokit.container.settings import ContainerSettings
from reprokit.display import Notify
from reprokit.engine import Engine, labels_of
from reprokit.errors import EngineError, ReprokitError, UsageError
from reprokit.image import made
from reprokit.image.leftovers import SNAPSHOTS
from reprokit.recipe.find import Target

# What containers of earlier versions are recreated for.
VERSION = "this version of reprokit"
# Engines accept about 125 layers; each commit adds one.
MOST_LAYERS = 100


def recreate(
    engine: Engine,
    found: dict[str, Any],
    target: Target,
    required: ContainerSettings,
    changed: list[str],
    links: dict[str, str],
    notify: Notify,
) -> None:
    """Replace a container by one with the settings `required`, its files and `links`; a failure restores the old one.

    Raises UsageError while commands run in it.
    """
    name = found["Name"].lstrip("/")
    labels = found["Config"]["Labels"]
    for mount in required.mounts:
        engine.host.require_source(mount)
    was_running = found["State"].get("Running")
    require_idle(engine, found, ", ".join(changed))
    notify(f"recreating {name} for {', '.join(changed)}; its files stay")
    if was_running:
        engine.stop(name)  # its ports must be free before the new one starts
    try:
        image = _snapshot(engine, found, _next(name))
        engine.rename(name, _aside(name))
        start = Start(
            name=name,
            recipe=labels[names.RECIPE],
            variant=labels[names.VARIANT],
            workdir=found["Config"].get("WorkingDir") or target.variant.workdir,
            image=image,
            built=labels[names.IMAGE],
            # A flattened snapshot has no configuration, and would lose PATH.
            env=dict(entry.partition("=")[::2] for entry in found["Config"].get("Env") or []),
            links=links,
        )
        launch(engine, start, required, False, notify)
    except BaseException:
        recover(engine, name, (name, labels[names.NAME]))
        _drop(engine, _next(name))
        if was_running:
            with contextlib.suppress(ReprokitError):
                engine.start(name)
        raise
    engine.remove(_aside(name), force=True)
    # A last snapshot with children stays, untagged, until the engine prunes the chain with its last image.
    for tag in {name, labels[names.NAME]}:  # the latter before this container was renamed
        _drop(engine, tag)
    engine.tag(image, SNAPSHOTS, name)
    _drop(engine, _next(name))


def require_idle(engine: Engine, found: dict[str, Any], changed: str) -> None:
    """Raises UsageError while commands run in a container that must be recreated."""
    if busy := sum(map(engine.exec_running, found.get("ExecIDs") or [])) if found["State"].get("Running") else 0:
        raise UsageError(
            f"{found['Name'].lstrip('/')} must be recreated for {changed}, but {busy} of its commands still run",
            hint="end them first, or start another container with --name",
        )


def _aside(name: str) -> str:
    return f"{name}.previous"


def _next(name: str) -> str:
    return f"{name}.next"


def is_ours(engine: Engine, found: dict[str, Any], own_names: Collection[str]) -> bool:
    """Whether reprokit made it for the caller, under one of these names: an image may have any labels."""
    labels = labels_of(found)
    return labels.get(names.NAME) in own_names and labels.get(names.OWNER) == str(engine.host.caller().uid)


def recover(engine: Engine, name: str, own_names: Collection[str]) -> None:
    """Restore the name of the caller's container after an interrupted recreation."""
    aside = engine.container(_aside(name))
    if aside is None or not is_ours(engine, aside, own_names):
        return
    if engine.container(name) is None:
        engine.rename(aside["Id"], name)
    else:
        engine.remove(aside["Id"], force=True)


def drop_snapshots(engine: Engine, name: str) -> None:
    """Remove the snapshots of a removed container, with their layers."""
    _drop(engine, name)
    _drop(engine, _next(name))


def _drop(engine: Engine, tag: str) -> None:
    if engine.image(f"{SNAPSHOTS}:{tag}") is not None:
        # It stays where the user made another container from it.
        with contextlib.suppress(EngineError):
            engine.remove_image(f"{SNAPSHOTS}:{tag}")


def _snapshot(engine: Engine, found: dict[str, Any], tag: str) -> str:
    """Make an image of the container's files; returns its id. It adds a layer, or flattens a deep chain into one."""
    name = found["Name"].lstrip("/")
    below = engine.image(found["Image"]) or {}
    if len((below.get("RootFS") or {}).get("Layers") or []) < MOST_LAYERS:
        image = engine.commit(name, SNAPSHOTS, tag)
    else:
        image = engine.import_image(engine.export(name), SNAPSHOTS, tag, [])
    made.record(engine, image, "snapshot", name)
    return image
