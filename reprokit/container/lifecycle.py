"""A recipe's container: created, started, and recreated for other settings."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any

from reprokit import paths
from reprokit.container import gpu, log, mounts, names, prepare
from reprokit.container.launch import Say, Start, launch
from reprokit.container.recreate import drop_snapshots, recover, recreate
from reprokit.container.settings import DEFAULTS, ContainerSettings, RunOptions, changes, merge
from reprokit.container.spec import IDLE, Port
from reprokit.engine import Engine
from reprokit.errors import UsageError
from reprokit.filelocks import file_lock
from reprokit.host.mounts import BindMount
from reprokit.recipe.find import Target


def _quiet(line: str) -> None:
    pass


def ensure_running(engine: Engine, target: Target, options: RunOptions = DEFAULTS, say: Say = _quiet) -> str:
    """Make the target's container run with these options; returns its name. `say` gets notices for the user.

    A container that must be recreated for an option keeps its files. Raises UsageError where the image has not been
    built, a mount's source is missing, a port is taken or the name is in use; EngineError where the engine fails.
    """
    check_options(engine, options, say)
    name = options.name or usual_name(engine, target)
    with _locked(engine, name, say):
        recover(engine, name)
        found = engine.container(name)
        if found is not None:
            _check_ours(engine, name, found, target)
            if _stale(engine, found, target):
                if options.replace_stale:
                    _remove(engine, name)
                    found = None
                else:
                    say(f"{name} is from an older build; `reprokit rm --force {name}` deletes it and its files")
        if found is None:
            _create(engine, target, name, options, say)
            return name
        have = names.settings_of(found["Config"]["Labels"])
        changed, links = [], dict[str, str]()
        if found["Config"].get("Entrypoint") != list(IDLE):
            have = replace(have, mounts=mounts.without_folders(have.mounts))
            changed, links = ["this version of reprokit"], mounts.links_of(target, have.mounts)
        want = merge(have, options)
        if want.mounts != have.mounts:
            mounts.require_no_link(name, target, have.mounts, want.mounts)
        if changed := changed + changes(have, want):
            recreate(engine, found, target, have, want, changed, links, say)
        elif not found["State"].get("Running"):
            for mount in have.mounts:
                engine.host.require_source(mount)
            # In other containers the idle program belongs to the commands' user, who could replace it anyway.
            if found["Config"]["User"] != found["Config"]["Labels"].get(names.USER):
                prepare.put_program(engine, name)
            engine.start(name)
        elif found["State"].get("Paused"):
            raise UsageError(f"{name} is paused", hint=f"docker unpause {name}")
    return name


def stop(engine: Engine, name: str) -> None:
    """Stop a container; its files stay."""
    with _locked(engine, name, _quiet):
        engine.stop(name)


def remove(engine: Engine, name: str) -> None:
    """Remove a container, running or not, with its files and its log."""
    with _locked(engine, name, _quiet):
        _remove(engine, name)
        log.forget(log.key(engine, name))


def _remove(engine: Engine, name: str) -> None:
    engine.remove(name, force=True)
    drop_snapshots(engine, name)


def check_options(engine: Engine, options: RunOptions, say: Say) -> None:
    """Raises UsageError where a mount's source is missing or two options contradict each other."""
    for mount in options.mounts:
        engine.host.require_source(mount)
    if options.gpus is not None and gpu.parse_gpus(options.gpus).none and options.gpus != "none":
        say(f"--gpus {options.gpus} asks for no GPU; write --gpus all or device=0 to get some, or --gpus none")
    if options.ports and options.network in ("host", "none"):
        raise UsageError(f"-p publishes nothing with --network {options.network}", hint="omit one of them")


def usual_name(engine: Engine, target: Target) -> str:
    """The default name; it ends in the caller's user id where another user has the plain name."""
    name = names.container_name(target.recipe.name, target.variant_name)
    found = engine.container(name)
    uid = engine.host.caller().uid
    return name if found is None or _owner(found) in ("", str(uid)) else f"{name}-{uid}"


def _owner(found: dict[str, Any]) -> str:
    return str((found["Config"].get("Labels") or {}).get(names.OWNER, ""))


def _check_ours(engine: Engine, name: str, found: dict[str, Any], target: Target) -> None:
    labels = found["Config"].get("Labels") or {}
    recipe = f"{labels.get(names.RECIPE)}:{labels.get(names.VARIANT)}"
    if names.NAME not in labels or _owner(found) != str(engine.host.caller().uid):
        raise UsageError(f"the container name {name!r} is in use", hint="choose another with --name")
    if recipe != target.label:
        raise UsageError(
            f"the container {name!r} belongs to {recipe}",
            hint=f"choose another with --name, or `reprokit rm {name}`",
        )


def _stale(engine: Engine, found: dict[str, Any], target: Target) -> bool:
    image = engine.image(names.image_reference(target))
    return image is not None and image["Id"] != found["Config"]["Labels"].get(names.IMAGE)


def built_image(engine: Engine, target: Target) -> dict[str, Any]:
    """Inspect the target's image. Raises UsageError where it has not been built."""
    image = engine.image(names.image_reference(target))
    if image is None:
        if node := engine.host.name:
            raise UsageError(f"{node} has no image of {target.label}", hint=f"reprokit send {target.label} {node}")
        raise UsageError(f"{target.label} has not been built", hint=f"reprokit build {target.label}")
    return image


def _create(engine: Engine, target: Target, name: str, options: RunOptions, say: Say) -> None:
    image = built_image(engine, target)
    settings = ContainerSettings(
        gpus="none" if options.gpus else _recipe_gpus(engine, target, say),
        mounts=(BindMount(engine.host.workspace(target, say), mounts.WORKSPACE),),
        ports=_recipe_ports(engine, target, options, say),
        shm=target.variant.shm,
    )
    settings = merge(settings, options)
    drop_snapshots(engine, name)  # of a container that was removed by hand
    start = Start.of(target, name, image["Id"], target.variant.workdir)
    start = replace(start, links=mounts.links_of(target, settings.mounts))
    launch(engine, start, settings, target.variant.requires.gpu == "optional" and options.gpus is None, say)


def _recipe_gpus(engine: Engine, target: Target, say: Say) -> str:
    requires = target.variant.requires.gpu
    if requires == "optional" and not engine.host.has_gpu(engine.host.gpu_support(engine.info())):
        say(f"no GPU on {engine.host.name or 'this machine'}: continuing without one, which the recipe allows")
        return "none"
    return "none" if requires == "none" else "all"


def _recipe_ports(engine: Engine, target: Target, options: RunOptions, say: Say) -> tuple[Port, ...]:
    """Publish the recipe's ports on the same port of the host, or the next free one."""
    chosen = {p.container for p in options.ports}
    ports: list[Port] = []
    for number in target.variant.ports:
        if number in chosen or options.network in ("host", "none"):
            continue
        used = {p.host for p in ports}
        host = next((n for n in range(number, 65536) if n not in used and engine.host.port_is_free(n)), number)
        if host != number:
            say(f"port {number} of the recipe is published as {host}: {number} is taken")
        ports.append(Port("127.0.0.1", host, number))
    return tuple(ports)


def _locked(engine: Engine, name: str, say: Say) -> contextlib.AbstractContextManager[None]:
    file = paths.state() / "containers" / f"{log.key(engine, name)}.lock"
    return file_lock(file, f"another reprokit is changing {name}: waiting for it", say)
