"""A recipe's container: created, started, and recreated for other settings."""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from dataclasses import replace

from reprokit import paths
from reprokit.container import gpu, log, mounts, names, prepare
from reprokit.container.launch import IDLE, Start, built_image, launch
from reprokit.container.recreate import (
    drop_snapshots,
    is_ours,
    recover,
    recreate,
    renew,
    require_possible,
)
from reprokit.container.settings import DEFAULTS, ContainerSettings, Port, RunOptions, changes, merge
from reprokit.display import notify
from reprokit.engine import ContainerInfo, Engine
from reprokit.errors import UsageError
from reprokit.filelocks import file_lock
from reprokit.host.mounts import BindMount
from reprokit.image.labels import image_name
from reprokit.image.lock import read
from reprokit.recipe.find import Target
from reprokit.supply.store import Store


def ensure_running(engine: Engine, target: Target, options: RunOptions = DEFAULTS) -> str:
    """Make the target's container run with these options; returns its name.

    A container that must be recreated for an option keeps its files; one whose image was rebuilt is replaced. Raises
    UsageError if the image has not been built, a mount's source is missing, a port is taken, the name is in use, or
    commands run in a container that must be recreated; EngineError if the engine fails.
    """
    check_options(engine, options)
    origin = names.ContainerOrigin.of(engine, target)
    name = options.name or usual_name(engine, target)
    with _locked(engine, name):
        recover(engine, name, _own_names(name))
        container = engine.container(name)
        if container is not None:
            _check_ours(engine, container, target, origin)
            if options.replace_stale and _outdated(engine, target, container, options):
                _remove(engine, name)
                container = None
            elif not options.stale and _must_renew(engine, target, container):
                engine.host.workspace(target)  # the rebuilt recipe may have other folders
                container = _renew(engine, target, origin, container, options)
        if stale := staleness(engine, target, container):
            notify(stale.line)
        if container is None:
            with Store().in_use():  # `clean` must not remove the image or the workspace meanwhile
                _create(engine, target, origin, name, options)
        else:
            _adapt(engine, target, container, options)
    return name


def renewed(engine: Engine, target: Target, name: str) -> None:
    """Recreate a running container, with its settings, if its image was rebuilt. Raises as `ensure_running`."""
    with _locked(engine, name):
        container = engine.container(name)
        if container is not None and _must_renew(engine, target, container):
            settings = names.settings_of(container.labels)
            origin = names.ContainerOrigin(settings.workspace, settings.recipe_file)
            _renew(engine, target, origin, container, DEFAULTS)


def _must_renew(engine: Engine, target: Target, container: ContainerInfo) -> bool:
    """Whether to renew a container of a rebuilt image; one that is kept for its changed files is not renewed."""
    return _is_rebuilt(engine, target, container) and names.before_kept(container.name) == container.name


def _is_rebuilt(engine: Engine, target: Target, container: ContainerInfo) -> bool:
    return engine.image_id(image_name(target)) not in ("", container.labels.get(names.IMAGE))


def _renew(
    engine: Engine, target: Target, origin: names.ContainerOrigin, container: ContainerInfo, options: RunOptions
) -> ContainerInfo | None:
    """Recreate a container from the rebuilt image, with its settings, these options and the recipe's present links."""
    required = merge(names.settings_of(container.labels), options)
    required = replace(required, workspace=origin.workspace, recipe_file=origin.recipe_file)
    required = replace(required, links=mounts.links_of(target, required.mounts))
    hint = "end them first, or use the older image: --stale"
    require_possible(engine, container, required, "is of an image that was rebuilt", hint)
    return renew(engine, container, target, required)


def _outdated(engine: Engine, target: Target, container: ContainerInfo, options: RunOptions) -> bool:
    """Whether a new container would have another image, or other settings from the recipe or the host."""
    if _is_rebuilt(engine, target, container):
        return True
    current = names.settings_of(container.labels)
    required = replace(current, shm=options.shm or target.variant.shm, links=mounts.links_of(target, current.mounts))
    if options.gpus is None:
        required = replace(required, gpus=_recipe_gpus(engine, target))
    return current != required


def _adapt(engine: Engine, target: Target, container: ContainerInfo, options: RunOptions) -> None:
    """Make an existing container run with these options."""
    name, current = container.name, names.settings_of(container.labels)
    required = merge(current, options)
    if required.mounts != current.mounts:
        mounts.require_no_link(name, target, current.mounts, required.mounts)
    if changed := changes(current, required):
        recreate(engine, container, target, required, changed)
    elif not container.running:
        for mount in current.mounts:
            engine.host.require_source(mount)
        # Else the idle program belongs to the commands' user, who could replace it anyway.
        if container.user != container.labels.get(names.USER):
            prepare.put_program(engine, name)
        engine.start(name)
    elif container.state == "paused":
        raise UsageError(f"{name} is paused", hint=f"docker unpause {name}")


def staleness(engine: Engine, target: Target, container: ContainerInfo | None) -> read.StaleImage | None:
    """How a container (else the target's image) differs from what would be built now, None if it does not."""
    if container and _is_rebuilt(engine, target, container):
        name = container.name
        return read.StaleImage(f"{name} is from an older build", f"`reprokit rm --force {name}` removes it")
    described = container or engine.image(image_name(target))
    return read.stale_image(target, described.labels) if described else None


def stop(engine: Engine, name: str) -> None:
    """Stop a container; its files stay."""
    with _locked(engine, name):
        engine.stop(name)


def remove(engine: Engine, name: str) -> None:
    """Remove a container, running or not, with its files and its log."""
    with _locked(engine, name):
        _remove(engine, name)
        log.forget(log.key(engine, name))


def remove_stopped(engine: Engine, name: str, container_id: str) -> bool:
    """Remove the container with this name and ID, with its files and its log. False if it runs or has another ID."""
    with _locked(engine, name):
        container = engine.container(name)
        if container is None or container.id != container_id or container.running:
            return False
        engine.remove(container_id)
        drop_snapshots(engine, name)
        log.forget(log.key(engine, name))
        return True


def _remove(engine: Engine, name: str) -> None:
    engine.remove(name, force=True)
    drop_snapshots(engine, name)


def check_options(engine: Engine, options: RunOptions) -> None:
    """Raises UsageError if a mount's source or a network is missing, or two options contradict each other."""
    for mount in options.mounts:
        engine.host.require_source(mount)
    if options.gpus is not None and gpu.parse_gpus(options.gpus).none and options.gpus != "none":
        notify(f"--gpus {options.gpus} asks for no GPU; write --gpus all or device=0 to get some, or --gpus none")
    if options.ports and options.network in ("host", "none"):
        raise UsageError(f"-p publishes nothing with --network {options.network}", hint="omit one of them")
    if options.network not in (None, "bridge", "host", "none") and not engine.has_network(options.network):
        raise UsageError(f"the engine has no network {options.network!r} (--network)", hint="see `docker network ls`")


def usual_name(engine: Engine, target: Target) -> str:
    """The default name."""
    origin = names.ContainerOrigin.of(engine, target)
    return names.container_name(target.recipe.name, target.variant_name, origin, engine.host.caller().uid)


def _own_names(name: str) -> list[str]:
    """The names that a container's label may have: `name`, and its name before it was kept."""
    return [name, names.before_kept(name)]


def _check_ours(engine: Engine, container: ContainerInfo, target: Target, origin: names.ContainerOrigin) -> None:
    name, labels = container.name, container.labels
    # Any image can have our labels, but none has the idle program.
    if container.entrypoint != IDLE or not is_ours(engine, container, _own_names(name)):
        raise UsageError(f"the container name {name!r} is in use", hint="choose another with --name")
    settings, label = names.settings_of(labels), names.label_of(labels)
    if label != target.label or not origin.made(settings):
        owner = label if label != target.label else f"another checkout, {names.checkout(settings)}"
        hint = f"choose another with --name, or `reprokit rm {name}`"
        raise UsageError(f"the container {name!r} belongs to {owner}", hint=hint)


def _create(engine: Engine, target: Target, origin: names.ContainerOrigin, name: str, options: RunOptions) -> None:
    image = built_image(engine, target)
    gpus = "none" if options.gpus else _recipe_gpus(engine, target)
    if gpus == "none" and target.variant.requires.gpu == "optional" and not options.gpus:
        notify(f"no GPU on {engine.host.name or 'this machine'}: continuing without one, which the recipe allows")
    settings = ContainerSettings(
        gpus=gpus,
        mounts=(BindMount(engine.host.workspace(target), mounts.WORKSPACE),),
        ports=_recipe_ports(engine, target, options),
        shm=target.variant.shm,
        workspace=origin.workspace,
        recipe_file=origin.recipe_file,
    )
    settings = merge(settings, options)
    settings = replace(settings, links=mounts.links_of(target, settings.mounts))
    drop_snapshots(engine, name)  # of a container that was removed by hand
    start = Start.of(target, name, image.id, target.variant.workdir)
    start = replace(start, links=settings.links, capabilities=options.capabilities)
    launch(engine, start, settings, target.variant.requires.gpu == "optional" and options.gpus is None)


def _recipe_gpus(engine: Engine, target: Target) -> str:
    requires = target.variant.requires.gpu
    if requires == "optional" and not engine.has_gpu():
        return "none"
    return "none" if requires == "none" else "all"


def _recipe_ports(engine: Engine, target: Target, options: RunOptions) -> tuple[Port, ...]:
    """Publish the recipe's ports on the same port of the host, or the next free one."""
    chosen = {p.container for p in options.ports}
    ports: list[Port] = []
    # A stopped container, such as another checkout's, needs its ports again.
    containers = names.known_containers(engine) if target.variant.ports else []
    kept = {port.host for container in containers for port in container.settings.ports}
    for number in target.variant.ports:
        if number in chosen or options.network in ("host", "none"):
            continue
        host = free_port(engine, number, kept | {port.host for port in ports})
        if host != number:
            notify(f"port {number} of the recipe is published as {host}: {number} is taken")
        ports.append(Port("127.0.0.1", host, number))
    return tuple(ports)


def free_port(engine: Engine, start: int, used: Collection[int] = ()) -> int:
    """The first port of the host from `start` on that is free. Raises UsageError if there is none."""
    port = next((n for n in range(start, 65536) if n not in used and engine.host.port_is_free(n)), None)
    if port is None:
        raise UsageError(f"no port from {start} on is free", hint="choose one with -p")
    return port


def _locked(engine: Engine, name: str) -> contextlib.AbstractContextManager[None]:
    file = paths.state() / "containers" / f"{log.key(engine, name)}.lock"
    return file_lock(file, f"another reprokit is changing {name}: waiting for it")
