"""Recreate a container: with other settings and the same files, or of a rebuilt image.

The engine cannot change the ports, mounts and image of a container that exists.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from reprokit.container import names
from reprokit.container.launch import Start, built_image, launch
from reprokit.container.prepare import PROGRAM, is_folder
from reprokit.container.settings import ContainerSettings
from reprokit.display import notify
from reprokit.engine import Engine, labels_of, port_taken
from reprokit.errors import EngineError, ReprokitError, UsageError
from reprokit.image import made
from reprokit.image.leftovers import SNAPSHOTS
from reprokit.recipe.find import Target

_BUSY_HINT = "end them first, or start another container with --name"
_INIT = ("/docker-init", "/podman-init")  # an empty file, over which the engine mounts its init
_DELETED = 2  # the Engine API's kind of change
_MOST_FOLDERS = 1000  # each takes a request
# Engines accept about 125 layers; each commit adds one.
MOST_LAYERS = 100


def recreate(
    engine: Engine,
    found: dict[str, Any],
    target: Target,
    required: ContainerSettings,
    changed: list[str],
) -> None:
    """Replace a container by one with the settings `required` and its files; a failure restores the old one.

    Raises UsageError while commands run in it.
    """
    name = found["Name"].lstrip("/")
    labels = found["Config"]["Labels"]
    was_running = found["State"].get("Running")
    require_possible(engine, found, required, f"must be recreated for {', '.join(changed)}")
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
        )
        launch(engine, start, required, False)
    except BaseException:
        recover(engine, name, (name, labels[names.NAME]))
        _drop(engine, _next(name))
        if was_running:
            with contextlib.suppress(ReprokitError):
                engine.start(name)
        raise
    engine.remove(_aside(name), force=True)
    # A last snapshot with children stays, untagged, until the engine prunes the chain with its last image.
    _drop(engine, name)
    engine.tag(image, SNAPSHOTS, name)
    _drop(engine, _next(name))


def renew(engine: Engine, found: dict[str, Any], target: Target, required: ContainerSettings) -> dict[str, Any]:
    """Replace a container by one of the target's present image with the settings `required`; returns the new one.

    `require_possible` must hold. If its files were changed, the old one is kept under another name. A failure restores
    it.
    """
    name = found["Name"].lstrip("/")
    was_running = found["State"].get("Running")
    image = built_image(engine, target)["Id"]
    notify(f"recreating {name}: its image was rebuilt")
    if was_running:
        engine.stop(name)
    old = names.kept_name(engine, name)
    engine.rename(name, old)
    try:
        start = Start.of(target, name, image, target.variant.workdir)
        launch(engine, replace(start, links=required.links), required, False)
    except BaseException:
        with contextlib.suppress(ReprokitError):
            engine.rename(old, name)
            if was_running:
                engine.start(name)
        raise
    changed = changed_file(engine, found)
    has_snapshot = found["Image"] != labels_of(found)[names.IMAGE]
    if not changed and not has_snapshot:
        engine.remove(old, force=True)
        return engine.container(name) or {}
    if has_snapshot:
        engine.tag(found["Image"], SNAPSHOTS, old)
        _drop(engine, name)
    on = f" --on {engine.host.name}" if engine.host.name else ""
    notify(
        f"{old} keeps the old one with its changed files{f', such as {changed}' if changed else ''}: "
        f"`reprokit shell{on} --name {old} {target.label}` opens it, `reprokit rm{on} {old}` removes it"
    )
    return engine.container(name) or {}


def changed_file(engine: Engine, found: dict[str, Any]) -> str:
    """A file that commands added, changed or deleted since the container was created, "" if there is none.

    Folders do not count: temporary files leave them changed, and reprokit makes some itself.
    """
    settings = names.settings_of(labels_of(found))
    # The files of `prepare`, and the places of mounted files.
    own = {PROGRAM, "/etc/passwd", "/etc/group", *settings.links, *(mount.target for mount in settings.mounts)}
    changes = [
        change
        for change in engine.changes(found["Id"])
        if change["Path"] not in own and not change["Path"].endswith(_INIT)
    ]
    for change in changes[:_MOST_FOLDERS]:
        if change["Kind"] == _DELETED or not is_folder(engine, found["Id"], change["Path"]):
            return str(change["Path"])
    return str(changes[-1]["Path"]) if len(changes) > _MOST_FOLDERS else ""


def require_possible(
    engine: Engine, found: dict[str, Any], required: ContainerSettings, why: str, hint: str = _BUSY_HINT
) -> None:
    """Raises UsageError if a new container could not start, or while commands run in the present one."""
    running = found["State"].get("Running")
    for mount in required.mounts:
        engine.host.require_source(mount)
    require_idle(engine, found, why, hint)
    own = {port.host for port in names.settings_of(labels_of(found)).ports} if running else set()
    for port in required.ports:
        local = port.protocol == "tcp" and port.address in ("127.0.0.1", "0.0.0.0")
        if local and port.host not in own and not engine.host.port_is_free(port.host):
            raise port_taken(f"{port.address}:{port.host}")


def require_idle(engine: Engine, found: dict[str, Any], why: str, hint: str = _BUSY_HINT) -> None:
    """Raises UsageError while commands run in a container that must be recreated."""
    if busy := running_commands(engine, found):
        raise UsageError(f"{found['Name'].lstrip('/')} {why}, but {busy} of its commands still run", hint=hint)


def running_commands(engine: Engine, found: dict[str, Any]) -> int:
    """The number of commands that run in a container."""
    return sum(map(engine.exec_running, found.get("ExecIDs") or [])) if found["State"].get("Running") else 0


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
        # It stays if the user made another container from it.
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
