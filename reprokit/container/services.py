"""The services of a recipe's container: containers in a network of their own, which the recipe's container joins too.

They start and end with it, and keep nothing. The network leads nowhere else, so the recipe's container reaches what it
reaches without services, and a service only the containers in it.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

from reprokit.container import names
from reprokit.container.execute import execute
from reprokit.container.launch import built_image
from reprokit.container.prepare import prepare
from reprokit.container.recreate import require_idle
from reprokit.container.user import Identity, identity
from reprokit.display import notify
from reprokit.engine import Engine, labels_of
from reprokit.errors import EngineError, UsageError, WorkFailed
from reprokit.image import trust
from reprokit.image.lock.read import stale_image, variant_lock
from reprokit.recipe.find import Target, service_targets
from reprokit.recipe.service import Service
from reprokit.supply.lock.file import lock_path
from reprokit.supply.store import Store, key_of

# Labels: the recipe's container that a service or a network belongs to, and what the service was made from.
OF = "reprokit.service.of"
_MADE_FROM = "reprokit.service.from"
# Limits the service's log, which the engine keeps.
_LOG = {"Type": "json-file", "Config": {"max-size": "4m", "max-file": "2"}}
_SHOWN_LINES, _SHOWN_BYTES = 20, 8 << 10
_LONGEST_PAUSE_S = 1.0
_CONNECT_S = 5.0
# Through the name, as the recipe's commands will do it.
_CONNECT = ["bash", "-c", 'exec 3<>"/dev/tcp/$0/$1"']


def name_of(container: str, service: str) -> str:
    return f"{container}.service-{service}"


def network_of(container: str) -> str:
    return f"{container}.services"


def known(engine: Engine, label: str = OF) -> dict[str, dict[str, dict[str, Any]]]:
    """The services of each container, by name, as the engine lists them.

    Containers inherit labels of images: only one that is named as a service of its container counts.
    """
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for listed in engine.containers([label]):
        name, of = listed["Names"][0].lstrip("/"), listed["Labels"][OF]
        if name.startswith(start := name_of(of, "")):
            found.setdefault(of, {})[name.removeprefix(start)] = listed
    return found


def of_container(engine: Engine, container: str) -> dict[str, dict[str, Any]]:
    """The services of one container, by name, as the engine lists them."""
    return known(engine, f"{OF}={container}").get(container, {})


def check_network(target: Target, network: str | None, where: str = "", hint: str = "omit --network") -> None:
    """Raises UsageError if a container with this network could not reach the services of its recipe."""
    if target.variant.services and network in ("host", "none"):
        raise UsageError(f"services are not reachable with --network {network}", where, hint)


def ensure_ready(engine: Engine, container: str, target: Target) -> None:
    """Make the services of `target`, and no others, run beside its running container, and wait until they are ready.

    Where that fails none is left. Raises UsageError if an image was not built, WorkFailed if a service does not
    become ready, SourceError if an image is not available, EngineError.
    """
    services, present = target.variant.services, of_container(engine, container)
    if not services and not present:
        return
    found = engine.container(container) or {}
    # The container may have had its network before the recipe had services.
    hint = "`--network bridge` makes the container again, with its files"
    check_network(target, found["HostConfig"]["NetworkMode"], container, hint)
    images = _images(engine, target)
    who = identity(engine.host.caller(), engine.info())
    bodies = {name: _body(engine, container, target, name, images[name], who) for name in services}
    joined = network_of(container) in found["NetworkSettings"]["Networks"]
    try:
        if not joined or not _current(present, bodies):
            require_idle(engine, found, "must be recreated for its services")
            remove(engine, container)
            _start(engine, container, bodies, who)
        for name, service in services.items():
            _wait(engine, container, name, service)
    except BaseException:
        remove(engine, container)
        raise


def remove(engine: Engine, container: str) -> None:
    """Remove the services of the caller's container with all that they stored, and their network."""
    network, owner = network_of(container), str(engine.host.caller().uid)
    for listed in of_container(engine, container).values():
        if listed["Labels"].get(names.OWNER) == owner:
            engine.remove(listed["Id"], force=True)
    with suppress(EngineError):  # it is not in the network, or gone
        engine.disconnect(network, container)
    for found in engine.networks(f"{OF}={container}"):
        if found["Name"] == network and found["Labels"].get(names.OWNER) == owner:
            engine.remove_network(found["Id"])


def _images(engine: Engine, target: Target) -> dict[str, str]:
    """The ID of each service's image, which is on the engine then."""
    recipes, found = service_targets(target), dict[str, str]()
    for name, service in target.variant.services.items():
        if service.image:
            found[name] = _locked_image(engine, target, name, service.image)
            continue
        label = recipes[name].label
        image = built_image(engine, recipes[name])
        stale = stale_image(recipes[name], labels_of(image))
        for notice in (trust.notice(image["Id"], label, engine.host.name), stale.line if stale else ""):
            if notice:
                notify(notice)
        found[name] = image["Id"]
    return found


def _locked_image(engine: Engine, target: Target, name: str, reference: str) -> str:
    """The image that the lock names, without a lock the one of today."""
    from reprokit.image.base.resolve import resolve_base
    from reprokit.image.lock.supplies import Supplier
    from reprokit.supply.mirrors.places import Mirrors

    lock = variant_lock(target)
    if lock is None:
        return resolve_base(engine, reference).image_id
    base = lock.services.get(name)
    if base is None or base.reference != reference:
        problem = f"the lock of {target.label} is stale: services changed in the recipe"
        raise WorkFailed(problem, str(lock_path(target.path)), f"reprokit lock {target.label}")
    store = Store()
    with store.in_use():
        return Supplier(store, Mirrors(store)).image(engine, base).image_id


def _body(engine: Engine, container: str, target: Target, name: str, image: str, who: Identity) -> dict[str, Any]:
    """The body of the Engine API's create call: the rights of the recipe's container, and nothing of the host."""
    service = target.variant.services[name]
    body: dict[str, Any] = {
        "Image": image,
        "User": who.user,
        "Hostname": name,
        "Env": [f"{key}={value}" for key, value in {**service.env, "NVIDIA_VISIBLE_DEVICES": "void"}.items()],
        "Healthcheck": {"Test": ["NONE"]},
        # The image's own labels may be reprokit's: none of them may say whose container this is, or who runs in it.
        "Labels": {
            names.NAME: "",
            names.RECIPE: target.recipe.name,
            names.VARIANT: target.variant_name,
            names.OWNER: str(engine.host.caller().uid),
            names.USER: who.user,
            names.SETTINGS: "",
            OF: container,
        },
        "HostConfig": {
            "Init": True,
            "NetworkMode": network_of(container),
            "SecurityOpt": ["no-new-privileges"],
            "LogConfig": _LOG,
        },
        "NetworkingConfig": {"EndpointsConfig": {network_of(container): {"Aliases": [name]}}},
    }
    if service.command:
        body["Cmd"] = service.command
    if service.recipe:
        body["Entrypoint"] = []  # NVIDIA's prints a banner
    body["Labels"][_MADE_FROM] = key_of(body)
    return body


def _current(present: dict[str, dict[str, Any]], bodies: dict[str, dict[str, Any]]) -> bool:
    """Whether exactly these services run."""
    made = {name: listed["Labels"].get(_MADE_FROM) for name, listed in present.items() if listed["State"] == "running"}
    return made == {name: body["Labels"][_MADE_FROM] for name, body in bodies.items()} and made.keys() == present.keys()


def _start(engine: Engine, container: str, bodies: dict[str, dict[str, Any]], who: Identity) -> None:
    if not bodies:
        return
    notify(f"starting services: {', '.join(bodies)}")
    caller = engine.host.caller()
    engine.create_network(network_of(container), {OF: container, names.OWNER: str(caller.uid)})
    engine.join(network_of(container), container)
    for name, body in bodies.items():
        made = engine.create_container(name_of(container, name), body)
        prepare(engine, made, caller, Identity(who.user, (), False), {})
        engine.start(made)


def _wait(engine: Engine, container: str, name: str, service: Service) -> None:
    """Raises WorkFailed with the end of the service's log if it is not ready in time."""
    deadline, pause, made = time.monotonic() + service.timeout, 0.05, name_of(container, name)
    while True:
        state = (engine.container(made) or {}).get("State") or {}
        left = deadline - time.monotonic()
        if not state.get("Running"):
            why = f"the service {name} ended with exit code {state.get('ExitCode')}"
        elif left <= 0:
            why = f"the service {name} was not ready within {service.timeout} s"
        else:
            with suppress(EngineError):  # it ended meanwhile
                if _is_ready(engine, container, name, service, left):
                    return
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)
            continue
        failed = WorkFailed(why, made, "the end of its log is below" if (lines := _log(engine, made)) else "")
        failed.explanation = tuple(f"{name}: {line}" for line in lines)
        raise failed


def _is_ready(engine: Engine, container: str, name: str, service: Service, left: float) -> bool:
    for port in service.ports:
        argv = [*_CONNECT, name, str(port)]
        if execute(engine, container, argv, logged=False, timeout=min(left, _CONNECT_S)).exit_code:
            return False
    made = name_of(container, name)
    return not service.ready or not execute(engine, made, service.ready, logged=False, timeout=left).exit_code


def _log(engine: Engine, made: str) -> list[str]:
    tail = b""
    for block in engine.logs(made, tail=_SHOWN_LINES):
        tail = (tail + block)[-_SHOWN_BYTES:]
    return tail.decode(errors="replace").splitlines()[-_SHOWN_LINES:]
