"""A container's settings, as its label keeps them, and how later options change them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace

from reprokit.container.gpu import parse_gpus
from reprokit.container.spec import Port
from reprokit.host.mounts import BindMount
from reprokit.untrusted.documents import parsed


@dataclass(frozen=True)
class RunOptions:
    """Options of one command; None or empty keeps the container's setting, or the recipe's for a new container.

    `gpus` is as in `--gpus`; `mounts` and `ports` are added to those that the container has; `shm` is in bytes. `root`
    allows root's commands. `replace_stale` removes a container of an older build, with its files.
    """

    name: str | None = None
    gpus: str | None = None
    mounts: tuple[BindMount, ...] = ()
    ports: tuple[Port, ...] = ()
    shm: int | None = None
    network: str | None = None
    root: bool = False
    replace_stale: bool = False


DEFAULTS = RunOptions()


@dataclass(frozen=True)
class ContainerSettings:
    """`gpus` as requested, `rung` the way in which the engine provided them.

    `root`: the container belongs to root, so that root's commands have capabilities. In an ordinary user's container
    no command can gain any (no-new-privileges).
    """

    gpus: str = "none"
    rung: str = "none"
    mounts: tuple[BindMount, ...] = ()
    ports: tuple[Port, ...] = ()
    shm: int = 1 << 30
    network: str = "bridge"
    root: bool = False


def merge(have: ContainerSettings, options: RunOptions) -> ContainerSettings:
    """`have` with `options`: a mount replaces one of its target, a port one of its container port."""
    mounts = {m.target: m for m in (*have.mounts, *options.mounts)}
    ports = [
        p for p in have.ports if (p.container, p.protocol) not in {(n.container, n.protocol) for n in options.ports}
    ]
    return replace(
        have,
        gpus=have.gpus if options.gpus is None else str(parse_gpus(options.gpus)),
        mounts=tuple(mounts.values()),
        ports=tuple(dict.fromkeys((*ports, *options.ports))) if options.ports else have.ports,
        shm=options.shm or have.shm,
        network=options.network or have.network,
        root=options.root or have.root,
    )


def changes(have: ContainerSettings, want: ContainerSettings) -> list[str]:
    """The settings that differ, in words; empty where `want` needs no new container."""
    found = [f"mount {m.target}" for m in want.mounts if m not in have.mounts]
    found += [f"port {p.host}" for p in want.ports if p not in have.ports]
    found += ["port removed"] if set(have.ports) - set(want.ports) and not found else []
    found += [f"--gpus {want.gpus}"] if want.gpus != have.gpus else []
    found += [f"--shm-size {want.shm}"] if want.shm != have.shm else []
    found += [f"--network {want.network}"] if want.network != have.network else []
    found += ["--user root"] if want.root and not have.root else []
    return found


def to_label(settings: ContainerSettings) -> str:
    return json.dumps(asdict(settings), sort_keys=True)


def from_label(text: str) -> ContainerSettings:
    """Raises ValueError where `text` is not what `to_label` wrote."""
    try:
        data = parsed(text)
        mounts = tuple(BindMount(**m) for m in data.pop("mounts"))
        ports = tuple(Port(**p) for p in data.pop("ports"))
        return ContainerSettings(mounts=mounts, ports=ports, **data)
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"not a container's settings: {error}") from None
