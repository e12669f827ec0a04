"""Make and start one container; nothing is left behind where it does not start."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from reprokit.container import gpu, names
from reprokit.container.fit import require_fit
from reprokit.container.gpu import GpuRefused
from reprokit.container.path_mapping import reachable
from reprokit.container.prepare import Preparation, prepare
from reprokit.container.settings import Settings, to_label
from reprokit.container.spec import ContainerSpec, to_api
from reprokit.container.user import Caller, Identity, identity
from reprokit.container.workspace import require_apart
from reprokit.engine import Engine
from reprokit.errors import EngineError, ReprokitError

Say = Callable[[str], None]


@dataclass(frozen=True)
class Start:
    """What a container begins with: `built` is the id of the built image, `image` that or its snapshot.

    `links` are targets by their path in the container.
    """

    name: str
    recipe: str
    variant: str
    workdir: str
    image: str
    built: str
    env: dict[str, str]
    links: dict[str, str] = field(default_factory=dict)


def launch(engine: Engine, start: Start, settings: Settings, gpu_optional: bool, say: Say) -> Settings:
    """Create and start; returns the settings with the rung that gave the GPUs.

    With `gpu_optional` a container without GPUs is started where the engine gives none. Raises EngineError,
    UsageError.
    """
    if gpu_optional:
        try:
            return launch(engine, start, settings, False, say)
        except GpuRefused as error:
            say(f"{error.message}: going on without a GPU, which the recipe allows")
            settings = replace(settings, gpus="none")
    caller = engine.host.caller()
    info = engine.info()
    who = identity(caller, info)
    settings = replace(settings, root=settings.root or who.user == "0:0")
    _require_apart(engine, start, settings, caller)
    request = gpu.parse_gpus(settings.gpus)
    if not request.none:
        _require_fit(engine, start, say)
    refusal = ""
    for rung in gpu.ladder(request, engine.host.gpu_support(info)):
        given = replace(settings, rung=rung.name)
        try:
            spec = _spec(engine, start, given, rung, info, caller, who)
            _try(engine, start.name, spec, Preparation(who.user, caller, who.groups, start.links))
        except EngineError as error:
            if request.none or not gpu.refused(error.message):
                raise
            refusal = error.message
            continue
        if not request.none:
            say(f"GPUs: {request}, through {rung.name}")
        return given
    raise gpu.no_gpu_error(request, refusal)


def _require_fit(engine: Engine, start: Start, say: Say) -> None:
    config = (engine.image(start.built) or {}).get("Config") or {}
    if warning := require_fit(config.get("Labels") or {}, engine.host.gpus()):
        say(warning)


def _require_apart(engine: Engine, start: Start, settings: Settings, caller: Caller) -> None:
    others = [c for c in names.known_containers(engine) if c.owner == caller.uid and c.name != start.name]
    require_apart(settings.mounts, [(other.name, mount) for other in others for mount in other.settings.mounts])


def _try(engine: Engine, name: str, spec: ContainerSpec, preparation: Preparation) -> None:
    container = engine.create_container(name, to_api(spec))
    with _removed_on_failure(engine, container):
        prepare(engine, container, preparation)
        engine.start(container)


@contextlib.contextmanager
def _removed_on_failure(engine: Engine, container: str) -> Iterator[None]:
    try:
        yield
    except BaseException:
        _remove(engine, container)
        raise


@contextlib.contextmanager
def removed_at_end(engine: Engine, container: str) -> Iterator[None]:
    try:
        yield
    finally:
        _remove(engine, container)


def _remove(engine: Engine, container: str) -> None:
    with contextlib.suppress(ReprokitError):
        engine.remove(container, force=True)


def _spec(
    engine: Engine,
    start: Start,
    settings: Settings,
    rung: gpu.Rung,
    info: dict[str, Any],
    caller: Caller,
    who: Identity,
) -> ContainerSpec:
    env = dict(start.env)
    if rung.name == "none":
        # CUDA images set this to `all`, which is obeyed where NVIDIA's runtime is the engine's default one.
        env["NVIDIA_VISIBLE_DEVICES"] = "void"
    elif env.get("NVIDIA_VISIBLE_DEVICES") == "void":
        del env["NVIDIA_VISIBLE_DEVICES"]
    return ContainerSpec(
        image=start.image,
        user="0:0" if settings.root else who.user,
        hostname=start.recipe[:63].strip("-._").replace(".", "-").replace("_", "-"),
        workdir=start.workdir,
        labels={
            names.NAME: start.name,
            names.RECIPE: start.recipe,
            names.VARIANT: start.variant,
            names.IMAGE: start.built,
            names.OWNER: str(caller.uid),
            names.USER: who.user,
            names.SETTINGS: to_label(settings),
        },
        env=env,
        mounts=reachable(engine, settings.mounts),
        ports=() if settings.network in ("host", "none") else settings.ports,
        shm=settings.shm,
        network=settings.network,
        gpus=rung.requests,
        # SELinux lets no container read the user's files, unless they are relabelled, which would change the
        # host.
        security=("label=disable",) if any("name=selinux" in str(o) for o in info.get("SecurityOptions") or []) else (),
        groups=who.groups,
        host_users=who.host_users,
    )
