"""Create and start one container; one that does not start is removed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from reprokit.container import gpu, names
from reprokit.container.gpu import GpuRefused, Rung
from reprokit.container.mounts import as_engine_paths, require_apart
from reprokit.container.prepare import PROGRAM, prepare
from reprokit.container.settings import ContainerSettings, to_label
from reprokit.container.user import Identity, identity
from reprokit.display import notify
from reprokit.engine import Engine, EngineInfo, ImageInfo
from reprokit.errors import EngineError, ReprokitError, UsageError
from reprokit.host.mounts import BindMount
from reprokit.image import trust
from reprokit.image.build import BuildResult, built
from reprokit.image.labels import ImageLabels, image_name
from reprokit.recipe.find import Target
from reprokit.recipe.load import host_name

IDLE = (PROGRAM, "idle")


@dataclass(frozen=True)
class Start:
    """The source of a container: `built` is the ID of the built image, `image` the same or its snapshot.

    `links` maps paths in the container to the targets of symbolic links. `capabilities` are added to the engine's usual
    ones.
    """

    name: str
    recipe: str
    variant: str
    workdir: str
    image: str
    built: str
    env: dict[str, str] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    capabilities: tuple[str, ...] = ()

    @classmethod
    def of(cls, target: Target, name: str, image: str, workdir: str) -> Start:
        """A container of the target's own image."""
        return cls(name, target.recipe.name, target.variant_name, workdir, image, image)


def create_body(
    start: Start,
    settings: ContainerSettings,
    rung: Rung,
    who: Identity,
    owner: int,
    mounts: Iterable[BindMount],
    info: EngineInfo,
) -> dict[str, Any]:
    """The body of the Engine API's create call; `mounts` are those of `settings` as the engine names them.

    No container is privileged. It shares the host's network on request, and the host's user ids on engines that shift
    ids.
    """
    env = dict(start.env)
    if rung.name == "none":
        # CUDA images set this to `all`, which takes effect if NVIDIA's runtime is the engine's default.
        env["NVIDIA_VISIBLE_DEVICES"] = "void"
    elif env.get("NVIDIA_VISIBLE_DEVICES") == "void":
        del env["NVIDIA_VISIBLE_DEVICES"]
    ports: dict[str, list[dict[str, str]]] = {}
    for port in () if settings.network in ("host", "none") else settings.ports:
        of_port = ports.setdefault(f"{port.container}/{port.protocol}", [])
        of_port.append({"HostIp": port.address, "HostPort": str(port.host)})
    # SELinux forbids containers to read the user's files unless relabelled, which would change the host.
    host: dict[str, Any] = {
        "Init": True,
        "Mounts": [{"Type": "bind", "Source": m.source, "Target": m.target, "ReadOnly": m.read_only} for m in mounts],
        "PortBindings": ports,
        "ShmSize": settings.shm,
        "NetworkMode": settings.network,
        "SecurityOpt": ["no-new-privileges", *(["label=disable"] if info.has_option("name=selinux") else [])],
        "DeviceRequests": list(rung.requests),
        "GroupAdd": list(who.groups),
    }
    if start.capabilities:
        host["CapAdd"] = list(start.capabilities)
    if who.host_users:
        host["UsernsMode"] = "host"
    body: dict[str, Any] = {
        "Image": start.image,
        "User": "0:0" if settings.root else who.user,
        "WorkingDir": start.workdir,
        "Env": [f"{name}={value}" for name, value in env.items()],
        "Labels": {
            names.NAME: start.name,
            names.RECIPE: start.recipe,
            names.VARIANT: start.variant,
            names.IMAGE: start.built,
            names.OWNER: str(owner),
            names.USER: who.user,
            names.SETTINGS: to_label(settings),
        },
        # The image's entry point (NVIDIA's prints a banner), stop signal and health check do not suit the idle program.
        "Entrypoint": list(IDLE),
        "Cmd": [],
        "StopSignal": "SIGTERM",
        "Healthcheck": {"Test": ["NONE"]},
        "ExposedPorts": {port: {} for port in ports},
        "HostConfig": host,
    }
    if settings.network != "host":
        body["Hostname"] = host_name(start.recipe)
    return body


def launch(engine: Engine, start: Start, settings: ContainerSettings, gpu_optional: bool) -> ContainerSettings:
    """Create and start; returns the settings with the rung that provided the GPUs.

    With `gpu_optional` the container is started without GPUs if the engine provides none. Raises EngineError,
    UsageError.
    """
    if gpu_optional:
        try:
            return launch(engine, start, settings, False)
        except GpuRefused as error:
            notify(f"{error.message}: continuing without a GPU, which the recipe allows")
            settings = replace(settings, gpus="none")
    caller = engine.host.caller()
    info = engine.info()
    who = identity(caller, info)
    settings = replace(settings, root=settings.root or who.user == "0:0")
    others = [c for c in names.known_containers(engine) if c.owner == caller.uid and c.name != start.name]
    require_apart(settings.mounts, [(other.name, mount) for other in others for mount in other.settings.mounts])
    request = gpu.parse_gpus(settings.gpus)
    if not request.none:
        _require_fit(engine, start)
    mounts = as_engine_paths(engine, settings.mounts)
    refusal = ""
    for rung in gpu.ladder(request, engine.cdi_devices(info)):
        with_rung = replace(settings, rung=rung.name)
        try:
            body = create_body(start, with_rung, rung, who, caller.uid, mounts, info)
            container = engine.create_container(start.name, body)
            try:
                prepare(engine, container, caller, who, start.links)
                engine.start(container)
            except BaseException:
                _remove(engine, container)
                raise
        except EngineError as error:
            if request.none or not gpu.refused(error.message):
                raise
            refusal = error.message
            continue
        if not request.none:
            notify(f"GPUs: {request}, through {rung.name}")
        return with_rung
    raise gpu.no_gpu_error(request, refusal)


def _require_fit(engine: Engine, start: Start) -> None:
    """Report what the driver or the GPUs lack for the image. Raises GpuRefused if the driver is too old."""
    from reprokit.host.fit import image_findings, in_words

    gpus = engine.host.gpus()
    image = engine.image(start.built)
    for finding in image_findings(ImageLabels.read(image.labels).needs, gpus) if image else ():
        if finding.severity == "error" and any(subject.startswith("driver=") for subject in finding.subjects):
            raise GpuRefused(
                f"the NVIDIA driver is too old for this image: {in_words(finding)}",
                gpus[0].name,
                "update the driver, or continue without a GPU: --gpus none",
            )
        if finding.severity in ("error", "warning"):
            notify(in_words(finding))


def built_image(engine: Engine, target: Target) -> ImageInfo:
    """Inspect the target's image. Raises UsageError if it has not been built."""
    image = engine.image(image_name(target))
    if image is None:
        if node := engine.host.name:
            raise UsageError(f"{node} has no image of {target.label}", hint=f"reprokit send {target.label} {node}")
        raise UsageError(f"{target.label} has not been built", hint=f"reprokit build {target.label}")
    return image


def usable_image(engine: Engine, target: Target) -> BuildResult:
    """The target's image, built if needed; on a node it must be present. Raises as `built`, UsageError."""
    if not engine.host.name:
        return built(engine, target)
    image = built_image(engine, target)
    if notice := trust.notice(image.id, target.label, engine.host.name):
        notify(notice)
    inputs = ImageLabels.read(image.labels).inputs
    return BuildResult(image_name(target), image.id, inputs, False, 0.0, state=trust.state(image.id))


@contextlib.contextmanager
def removed_at_end(engine: Engine, container: str) -> Iterator[None]:
    try:
        yield
    finally:
        _remove(engine, container)


def _remove(engine: Engine, container: str) -> None:
    with contextlib.suppress(ReprokitError):
        engine.remove(container, force=True)
