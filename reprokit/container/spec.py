"""What a container is made of, and the Engine API's body that makes it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

# Keeps the container alive and does nothing. It is reprokit's own, put into the container before it starts: a program
# of the image would run unasked, with the variables and libraries of the image.
PROGRAM = "/.reprokit-idle"
IDLE = (PROGRAM, "idle")


@dataclass(frozen=True)
class Mount:
    """A host folder or file (absolute) at a path in the container."""

    source: str
    target: str
    read_only: bool = False


@dataclass(frozen=True)
class Port:
    """A container's TCP or UDP port on an address and port of the host."""

    address: str
    host: int
    container: int
    protocol: str = "tcp"


@dataclass(frozen=True)
class ContainerSpec:
    """All of a container. `user` is `uid:gid`, `shm` is in bytes of /dev/shm, `gpus` are DeviceRequests."""

    image: str
    user: str
    hostname: str
    workdir: str
    labels: dict[str, str]
    env: dict[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    ports: tuple[Port, ...] = ()
    shm: int = 1 << 30
    network: str = "bridge"
    gpus: tuple[dict[str, Any], ...] = ()
    security: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    host_users: bool = False


def to_api(spec: ContainerSpec) -> dict[str, Any]:
    """The body of the Engine API's create call.

    Nothing is privileged; of the host's namespaces only a chosen network, and its users on engines that shift
    ids.
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
        # An image's own entry point (NVIDIA's prints a banner), signal or health check is for another main
        # process.
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
