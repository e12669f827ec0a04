"""The answers of an engine, as values that are checked once.

Engines and their versions differ: a field that is missing, or whose type is not the API's, gets its default here. Only
a missing indispensable field, such as an image's ID, raises an EngineError.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from reprokit.errors import EngineError

_DOCKER_HUB = re.compile(r"^docker\.io/(library/)?")
_NO_NAME = "<none>:<none>"


@dataclass(frozen=True)
class EngineInfo:
    """An engine's report about itself and its machine, whose clock is `clock_ahead` seconds ahead of this one's.

    `root` is the folder of its images, `driver` its storage driver, `has_proxy` whether it pulls through one. It limits
    memory and processors of containers if `limits_memory` and `limits_processors`. `cdi_folders` are those of CDI
    files: none before Engine 25, or with CDI off. `cdi_devices` are the devices in them, None before Engine 28.3.
    """

    id: str = ""
    version: str = ""
    root: str = ""
    driver: str = ""
    driver_status: Mapping[str, str] = field(default_factory=dict)
    security_options: tuple[str, ...] = ()
    cgroup_version: str = ""
    limits_memory: bool = True
    limits_processors: bool = False
    has_proxy: bool = False
    mirrors: tuple[str, ...] = ()
    runtimes: tuple[str, ...] = ()
    cdi_folders: tuple[str, ...] = ()
    cdi_devices: tuple[str, ...] | None = None
    clock_ahead: float = 0.0

    @classmethod
    def of(cls, answer: Any) -> EngineInfo:
        """Raises ValueError unless the answer is a JSON object."""
        value = _required_object(answer)
        devices = value.get("DiscoveredDevices")
        return cls(
            id=_text(value.get("ID")),
            version=_text(value.get("ServerVersion")),
            root=_text(value.get("DockerRootDir")),
            driver=_text(value.get("Driver")),
            driver_status={_text(p[0]): _text(p[1]) for p in _list(value.get("DriverStatus")) if len(_list(p)) == 2},
            security_options=_texts(value.get("SecurityOptions")),
            cgroup_version=_text(value.get("CgroupVersion")),
            limits_memory=value.get("MemoryLimit") is not False,
            limits_processors=value.get("CPUSet") is True,
            has_proxy=bool(value.get("HttpsProxy") or value.get("HttpProxy")),
            mirrors=_texts(_object(value.get("RegistryConfig")).get("Mirrors")),
            runtimes=tuple(_object(value.get("Runtimes"))),
            cdi_folders=_texts(value.get("CDISpecDirs")),
            cdi_devices=None if devices is None else tuple(_text(_object(d).get("ID")) for d in _list(devices)),
            clock_ahead=_time(value.get("SystemTime")) - time.time(),
        )

    @property
    def containerd(self) -> bool:
        """Whether containerd keeps the images (Engine 23 and newer)."""
        return any("io.containerd.snapshotter" in value for value in self.driver_status.values())

    def has_option(self, option: str) -> bool:
        """Whether one of its security options contains this text, such as `rootless` or `name=seccomp`."""
        return any(option in entry for entry in self.security_options)


@dataclass(frozen=True)
class EngineVersion:
    """An engine's versions and platform; `architecture` is Go's name, such as `amd64`."""

    version: str = ""
    api: str = ""
    os: str = ""
    architecture: str = ""
    podman: bool = False

    @classmethod
    def of(cls, answer: Any) -> EngineVersion:
        """Raises ValueError unless the answer is a JSON object."""
        value = _required_object(answer)
        components = (_text(_object(part).get("Name")) for part in _list(value.get("Components")))
        return cls(
            version=_text(value.get("Version")),
            api=_text(value.get("ApiVersion")),
            os=_text(value.get("Os")),
            architecture=_text(value.get("Arch")),
            podman=any("podman" in name.lower() for name in components),
        )


@dataclass(frozen=True)
class TransferEvent:
    """Progress of a pull or push: a layer's short ID, its new status, and bytes of `total`."""

    layer: str
    status: str
    done: int = 0
    total: int = 0

    @classmethod
    def of(cls, answer: Any) -> TransferEvent:
        value = _object(answer)
        detail = _object(value.get("progressDetail"))
        layer, status = _text(value.get("id")), _text(value.get("status"))
        return cls(layer, status, _number(detail.get("current")), _number(detail.get("total")))


@dataclass(frozen=True)
class ImageInfo:
    """An image. `names` are as Docker writes them, `layers` diff IDs from the base up, `created` is a Unix time.

    `digests` are the names by digest, `debian@sha256:...`, under which registries have it.

    `config` are the settings of its containers, by the OCI image specification's keys. An image of a list has only its
    labels, and no layers; an inspected one has no parent.
    """

    id: str
    names: tuple[str, ...] = ()
    digests: tuple[str, ...] = ()
    parent: str = ""
    size: int = 0
    created: float = 0.0
    labels: Mapping[str, str] = field(default_factory=dict)
    layers: tuple[str, ...] = ()
    config: Mapping[str, Any] = field(default_factory=dict)
    architecture: str = ""
    author: str = ""

    @property
    def name(self) -> str:
        """Its first name."""
        return self.names[0]

    @classmethod
    def of(cls, answer: Any) -> ImageInfo:
        """From an inspected image, or an image of a list. Raises EngineError if it has no ID."""
        value = _object(answer)
        config = _object(value.get("Config"))
        # podman adds Docker Hub's host.
        names = (_DOCKER_HUB.sub("", name) for name in _texts(value.get("RepoTags")))
        parent = _text(value.get("ParentId"))
        return cls(
            id=full_id(_id_in(value)),
            names=tuple(name for name in names if name != _NO_NAME),
            digests=_texts(value.get("RepoDigests")),
            parent=full_id(parent) if parent else "",
            size=_number(value.get("Size")),
            created=_time(value.get("Created")),
            labels=_labels(value, config),
            layers=_texts(_object(value.get("RootFS")).get("Layers")),
            config=config,
            architecture=_text(value.get("Architecture")),
            author=_text(value.get("Author")),
        )


@dataclass(frozen=True)
class ContainerMount:
    """`source` is the host's path, `target` the path in the container, `name` that of a volume or empty."""

    source: str
    target: str
    name: str = ""


@dataclass(frozen=True)
class ContainerInfo:
    """A container. `image` is an image's ID, `state` such as "running", `created` a Unix time.

    `size` are the bytes of its own files, if requested. `execs` are the IDs of commands in it. A container of
    a list has no `config`, and neither `execs` nor `pid`.
    """

    id: str
    name: str = ""
    image: str = ""
    state: str = ""
    created: float = 0.0
    pid: int = 0
    size: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    mounts: tuple[ContainerMount, ...] = ()
    execs: tuple[str, ...] = ()

    @classmethod
    def of(cls, answer: Any) -> ContainerInfo:
        """From an inspected container, or a container of a list. Raises EngineError if it has no ID."""
        value = _object(answer)
        config, state = _object(value.get("Config")), value.get("State")
        names = (_text(value.get("Name")), *_texts(value.get("Names")))
        image = _text(value.get("ImageID")) or _text(value.get("Image"))
        return cls(
            id=_id_in(value),
            name=next((name.lstrip("/") for name in names if name), ""),
            image=full_id(image) if image else "",
            state=_text(_object(state).get("Status")) or _text(state),
            created=_time(value.get("Created")),
            pid=_number(_object(state).get("Pid")),
            size=_number(value.get("SizeRw")),
            labels=_labels(value, config),
            config=config,
            mounts=tuple(
                ContainerMount(_text(mount.get("Source")), _text(mount.get("Destination")), _text(mount.get("Name")))
                for mount in map(_object, _list(value.get("Mounts")))
            ),
            execs=_texts(value.get("ExecIDs")),
        )

    @property
    def running(self) -> bool:
        """Whether it has processes, also while it is paused or restarts."""
        return self.state in ("running", "paused", "restarting")

    @property
    def entrypoint(self) -> tuple[str, ...]:
        return _texts(self.config.get("Entrypoint"))

    @property
    def env(self) -> dict[str, str]:
        return dict(entry.partition("=")[::2] for entry in _texts(self.config.get("Env")))

    @property
    def user(self) -> str:
        return _text(self.config.get("User"))

    @property
    def workdir(self) -> str:
        return _text(self.config.get("WorkingDir"))


@dataclass(frozen=True)
class HistoryStep:
    """A step that made an image: its command, a comment, and the bytes of the layer that it added."""

    command: str
    size: int = 0
    comment: str = ""

    @classmethod
    def of(cls, answer: Any) -> HistoryStep:
        value = _object(answer)
        return cls(_text(value.get("CreatedBy")), _number(value.get("Size")), _text(value.get("Comment")))


@dataclass(frozen=True)
class ChangedPath:
    """A path that differs from a container's image."""

    path: str
    deleted: bool = False


@dataclass(frozen=True)
class PathStatus:
    """A path of a container: `mode` has the bits of Go's `fs.FileMode`, `link` is where a link leads."""

    mode: int
    link: str = ""


@dataclass(frozen=True)
class VolumeInfo:
    """A volume; `created` is a Unix time."""

    name: str
    created: float

    @classmethod
    def of(cls, answer: Any) -> VolumeInfo:
        value = _object(answer)
        return cls(_text(value.get("Name")), _time(value.get("CreatedAt")))


def full_id(image_id: str) -> str:
    """Add the algorithm to an image's ID, which podman omits."""
    return image_id if image_id.startswith("sha256:") else f"sha256:{image_id}"


def _id_in(value: Mapping[str, Any]) -> str:
    identifier = _text(value.get("Id"))
    if not identifier:
        raise EngineError("the engine's answer has no ID of an image or container")
    return identifier


def _labels(value: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, str]:
    labels = _object(config.get("Labels")) or _object(value.get("Labels"))
    return {key: text for key, text in labels.items() if isinstance(text, str)}


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _required_object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("the engine reports nothing about itself")
    return value


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(text for text in _list(value) if isinstance(text, str))


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _time(value: Any) -> float:
    """A Unix time or ISO 8601 as a Unix time; the present for anything else, so that it does not count as old."""
    if isinstance(value, int):
        return float(value)
    # Python 3.10 reads neither nanoseconds nor Z.
    iso = re.fullmatch(r"(.{19})(?:\.\d+)?(Z|[+-]\d\d:\d\d)", _text(value))
    try:
        return datetime.fromisoformat(iso[1] + iso[2].replace("Z", "+00:00")).timestamp() if iso else time.time()
    except ValueError:
        return time.time()
