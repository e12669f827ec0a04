"""The configuration of a container, and the Engine API body that creates it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from reprokit.host.mounts import BindMount

# Reprokit's own program, put into the container before it starts. It only keeps the container alive: a program of the
# image would run unasked, with the variables and libraries of the image.
PROGRAM = "/.reprokit-idle"
IDLE = (PROGRAM, "idle")


@dataclass(frozen=True)
class Port:
    """A container's TCP or UDP port on an address and port of the host."""

    address: str
    host: int
    container: int
    protocol: str = "tcp"


@dataclass(frozen=True)
class ContainerSpec:
    """`user` is `uid:gid`, `shm` is in bytes of /dev/shm, `gpus` are DeviceRequests."""

    image: str
    user: str
    hostname: str
    workdir: str
    labels: dict[str, str]
    env: dict[str, str] = field(default_factory=dict)
    mounts: tuple[BindMount, ...] = ()
    ports: tuple[Port, ...] = ()
    shm: int = 1 << 30
    network: str = "bridge"
    gpus: tuple[dict[str, Any], ...] = ()
    security: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    host_users: bool = False


def to_api(spec: ContainerSpec) -> dict[str, Any]:
    """The body of the Engine API's create call.

    No container is privileged. It shares the host's network where the user asks for that, and the host's user ids on
    engines that shift ids.
    """
    host: dict[str, Any] = {
        "Init": True,
        "Mounts": [
            {"Type": "bind", "Source": m.source, "Target": m.target, "ReadOnly": m.read_only} for m in spec.mounts
        ],
        "PortBindings": _bindings(spec.ports),
        "ShmSize": spec.shm,
        "NetworkMode": spec.network,
        "SecurityOpt": ["no-new-privileges", *spec.security],
        "DeviceRequests": list(spec.gpus),
        "GroupAdd": list(spec.groups),
    }
    if spec.host_users:
        host["UsernsMode"] = "host"
    body: dict[str, Any] = {
        "Image": spec.image,
        "User": spec.user,
        "WorkingDir": spec.workdir,
        "Env": [f"{name}={value}" for name, value in spec.env.items()],
        "Labels": spec.labels,
        # The image's entry point (NVIDIA's prints a banner), stop signal and health check are for another main process.
        "Entrypoint": list(IDLE),
        "Cmd": [],
        "StopSignal": "SIGTERM",
        "Healthcheck": {"Test": ["NONE"]},
        "ExposedPorts": {f"{p.container}/{p.protocol}": {} for p in spec.ports},
        "HostConfig": host,
    }
    if spec.network != "host":
        body["Hostname"] = spec.hostname
    return body


def _bindings(ports: tuple[Port, ...]) -> dict[str, list[dict[str, str]]]:
    bindings: dict[str, list[dict[str, str]]] = {}
    for port in ports:
        of_port = bindings.setdefault(f"{port.container}/{port.protocol}", [])
        of_port.append({"HostIp": port.address, "HostPort": str(port.host)})
    return bindings
