"""A container's settings, stored in its label, and the options that change them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace

from pydantic import TypeAdapter

from reprokit.container.gpu import parse_gpus
from reprokit.host.mounts import BindMount
from reprokit.untrusted.documents import parsed


@dataclass(frozen=True)
class Port:
    """A container's TCP or UDP port on an address and port of the host."""

    address: str
    host: int
    container: int
    protocol: str = "tcp"


@dataclass(frozen=True)
class RunOptions:
    """Options of one command; None or empty keeps the container's setting, or the recipe's for a new container.

    `gpus` is as in `--gpus`; `mounts` and `ports` are added to those that the container has; `shm` is in bytes. `root`
    allows root's commands. `stale` keeps a container whose image was rebuilt. `replace_stale` removes a container of an
    older build, or of other settings of the recipe, with its files. `capabilities` are added to a new container.
    """

    name: str | None = None
    gpus: str | None = None
    mounts: tuple[BindMount, ...] = ()
    ports: tuple[Port, ...] = ()
    shm: int | None = None
    network: str | None = None
    root: bool = False
    stale: bool = False
    replace_stale: bool = False
    capabilities: tuple[str, ...] = ()


DEFAULTS = RunOptions()


@dataclass(frozen=True)
class ContainerSettings:
    """`gpus` as requested; `rung` is the request that the engine accepted.

    `workspace` and `recipe_file` are the paths that the container belongs to. No image can forge them: every
    container of reprokit has this label, which replaces one of its image.

    `root`: the container belongs to root, so that root's commands have capabilities. In an ordinary user's container
    no command can gain any (no-new-privileges). `links` are those of the recipe that it was created with.
    """

    gpus: str = "none"
    rung: str = "none"
    mounts: tuple[BindMount, ...] = ()
    ports: tuple[Port, ...] = ()
    shm: int = 1 << 30
    network: str = "bridge"
    root: bool = False
    workspace: str = ""
    recipe_file: str = ""
    links: dict[str, str] = field(default_factory=dict, hash=False)


def merge(current: ContainerSettings, options: RunOptions) -> ContainerSettings:
    """`current` with `options`: a mount replaces one of its target, a port one of its container port."""
    mounts = {m.target: m for m in (*current.mounts, *options.mounts)}
    ports = [
        p for p in current.ports if (p.container, p.protocol) not in {(n.container, n.protocol) for n in options.ports}
    ]
    return replace(
        current,
        gpus=current.gpus if options.gpus is None else str(parse_gpus(options.gpus)),
        mounts=tuple(mounts.values()),
        ports=tuple(dict.fromkeys((*ports, *options.ports))) if options.ports else current.ports,
        shm=options.shm or current.shm,
        network=options.network or current.network,
        root=options.root or current.root,
    )


def changes(current: ContainerSettings, required: ContainerSettings) -> list[str]:
    """The settings that differ, in words; empty if `required` needs no new container."""
    changed = [f"mount {m.target}" for m in required.mounts if m not in current.mounts]
    changed += [f"port {p.host}" for p in required.ports if p not in current.ports]
    changed += ["port removed"] if set(current.ports) - set(required.ports) and not changed else []
    changed += [f"--gpus {required.gpus}"] if required.gpus != current.gpus else []
    changed += [f"--shm-size {required.shm}"] if required.shm != current.shm else []
    changed += [f"--network {required.network}"] if required.network != current.network else []
    changed += ["--user root"] if required.root and not current.root else []
    return changed


def to_label(settings: ContainerSettings) -> str:
    return json.dumps(asdict(settings), sort_keys=True)


def from_label(text: str) -> ContainerSettings:
    """Raises ValueError if `text` is not what `to_label` wrote."""
    try:
        data = parsed(text)
        mounts = tuple(BindMount(**m) for m in data.pop("mounts"))
        ports = tuple(Port(**p) for p in data.pop("ports"))
        settings = ContainerSettings(mounts=mounts, ports=ports, **data)
        return TypeAdapter(ContainerSettings).validate_python(asdict(settings))
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"not a container's settings: {error}") from None
