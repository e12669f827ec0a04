"""Recreate a container: with other settings and the same files, or from a rebuilt image.

The engine cannot change the ports, mounts and image of an existing container.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from dataclasses import replace

from reprokit.container import names
from reprokit.container.launch import Start, built_image, launch
from reprokit.container.prepare import PROGRAM, is_folder
from reprokit.container.settings import ContainerSettings
from reprokit.display import notify
from reprokit.engine import ContainerInfo, Engine, port_taken
from reprokit.errors import EngineError, ReprokitError, UsageError
from reprokit.image import made
from reprokit.image.leftovers import SNAPSHOTS
from reprokit.recipe.find import Target

_BUSY_HINT = "end them first, or start another container with --name"
_INIT = ("/docker-init", "/podman-init")  # an empty file under the mount of the engine's init
_MOST_FOLDERS = 1000  # each takes a request
# Engines accept about 125 layers; each commit adds one.
MOST_LAYERS = 100


def recreate(
    engine: Engine, container: ContainerInfo, target: Target, required: ContainerSettings, changed: list[str]
) -> None:
    """Replace a container by one with the settings `required` and its files; a failure restores the old one.

    Raises UsageError while commands run in it.
    """
    name, labels = container.name, container.labels
    require_possible(engine, container, required, f"must be recreated for {', '.join(changed)}")
    notify(f"recreating {name} for {', '.join(changed)}; its files stay")
    try:
        with _replacing(engine, container):
            image = _snapshot(engine, container, _next(name))
            engine.rename(container.id, _aside(name))
            start = Start(
                name=name,
                recipe=labels.get(names.RECIPE, ""),
                variant=labels.get(names.VARIANT, ""),
                workdir=container.workdir or target.variant.workdir,
                image=image,
                built=labels.get(names.IMAGE, ""),
                env=container.env,  # a flattened snapshot has no configuration, and would lose PATH
            )
            launch(engine, start, required, False)
        engine.remove(container.id, force=True)
        # A last snapshot with children stays, untagged, until the engine prunes the chain with its last image.
        _drop(engine, name)
        engine.tag(image, SNAPSHOTS, name)
    finally:
        _drop(engine, _next(name))


@contextlib.contextmanager
def _replacing(engine: Engine, container: ContainerInfo) -> Iterator[None]:
    """Stop a container, so that its ports are free, while the block renames it and starts another under its name.

    A failure restores it.
    """
    if container.running:
        engine.stop(container.id)
    try:
        yield
    except BaseException:
        with contextlib.suppress(ReprokitError):  # if the block did not rename it
            engine.rename(container.id, container.name)
        if container.running:
            with contextlib.suppress(ReprokitError):
                engine.start(container.id)
        raise


def renew(
    engine: Engine, container: ContainerInfo, target: Target, required: ContainerSettings
) -> ContainerInfo | None:
    """Replace a container by one of the target's present image with the settings `required`; returns the new one.

    `require_possible` must hold. If its files were changed, the old one is kept under another name. A failure restores
    it.
    """
    name, image = container.name, built_image(engine, target)
    notify(f"recreating {name}: its image was rebuilt")
    old = names.kept_name(engine, name)
    with _replacing(engine, container):
        engine.rename(container.id, old)
        start = Start.of(target, name, image.id, target.variant.workdir)
        launch(engine, replace(start, links=required.links), required, False)
    changed = changed_file(engine, container)
    has_snapshot = container.image != container.labels.get(names.IMAGE)
    if not changed and not has_snapshot:
        engine.remove(old, force=True)
        return engine.container(name)
    if has_snapshot:
        engine.tag(container.image, SNAPSHOTS, old)
        _drop(engine, name)
    on = f" --on {engine.host.name}" if engine.host.name else ""
    notify(
        f"{old} keeps the old one with its changed files{f', such as {changed}' if changed else ''}: "
        f"`reprokit shell{on} --name {old} {target.label}` opens it, `reprokit rm{on} {old}` removes it"
    )
    return engine.container(name)


def changed_file(engine: Engine, container: ContainerInfo) -> str:
    """A file that commands added, changed or deleted since the container was created, "" if there is none.

    Folders do not count: temporary files leave them changed, and reprokit makes some itself.
    """
    settings = names.settings_of(container.labels)
    # Paths of `prepare` and of mounts.
    own = {PROGRAM, "/etc/passwd", "/etc/group", *settings.links, *(mount.target for mount in settings.mounts)}
    changes = [c for c in engine.changes(container.id) if c.path not in own and not c.path.endswith(_INIT)]
    for change in changes[:_MOST_FOLDERS]:
        if change.deleted or not is_folder(engine, container.id, change.path):
            return change.path
    return changes[-1].path if len(changes) > _MOST_FOLDERS else ""


def require_possible(
    engine: Engine, container: ContainerInfo, required: ContainerSettings, why: str, hint: str = _BUSY_HINT
) -> None:
    """Raises UsageError if a new container could not start, or while commands run in the present one."""
    for mount in required.mounts:
        engine.host.require_source(mount)
    if busy := running_commands(engine, container):
        raise UsageError(f"{container.name} {why}, but {busy} of its commands still run", hint=hint)
    own = {port.host for port in names.settings_of(container.labels).ports} if container.running else set()
    for port in required.ports:
        local = port.protocol == "tcp" and port.address in ("127.0.0.1", "0.0.0.0")
        if local and port.host not in own and not engine.host.port_is_free(port.host):
            raise port_taken(f"{port.address}:{port.host}")


def running_commands(engine: Engine, container: ContainerInfo) -> int:
    """The number of commands that run in a container."""
    return sum(map(engine.exec_running, container.execs)) if container.running else 0


def _aside(name: str) -> str:
    return f"{name}.previous"


def _next(name: str) -> str:
    return f"{name}.next"


def is_ours(engine: Engine, container: ContainerInfo, own_names: Collection[str]) -> bool:
    """Whether reprokit made the container for the caller under one of these names; an image may have any labels."""
    labels = container.labels
    return labels.get(names.NAME) in own_names and labels.get(names.OWNER) == str(engine.host.caller().uid)


def recover(engine: Engine, name: str, own_names: Collection[str]) -> None:
    """Restore the name of the caller's container after an interrupted recreation."""
    aside = engine.container(_aside(name))
    if aside is None or not is_ours(engine, aside, own_names):
        return
    if engine.container(name) is None:
        engine.rename(aside.id, name)
    else:
        engine.remove(aside.id, force=True)


def drop_snapshots(engine: Engine, name: str) -> None:
    """Remove the snapshots of a removed container, with their layers."""
    _drop(engine, name)
    _drop(engine, _next(name))


def _drop(engine: Engine, tag: str) -> None:
    if engine.image(f"{SNAPSHOTS}:{tag}") is not None:
        # Fails if the user made another container from it.
        with contextlib.suppress(EngineError):
            engine.remove_image(f"{SNAPSHOTS}:{tag}")


def _snapshot(engine: Engine, container: ContainerInfo, tag: str) -> str:
    """Make an image of the container's files; returns its id. It adds a layer, or flattens a deep chain into one."""
    if len(engine.layers(container.image)) < MOST_LAYERS:
        image = engine.commit(container.id, SNAPSHOTS, tag)
    else:
        image = engine.import_image(engine.export(container.id), SNAPSHOTS, tag, [])
    made.record(engine, image, "snapshot", container.name)
    return image
