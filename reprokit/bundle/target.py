"""The engine that a bundle's images are for: how it takes them, which layers it has, how much room there is."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from reprokit.bundle.model import Image
from reprokit.engine import Engine
from reprokit.host.disk import ENGINE_HINT, require_space


class Form(Enum):
    """What an engine takes.

    PLAIN: Docker's archive with uncompressed layers, as graph drivers before Engine 23 need it. PACKED: the same with
    zstd layers. LAYOUT: the OCI layout, which containerd stores keep as it is. PLAIN_LAYOUT: the same with uncompressed
    layers, for podman, which could not save an image with zstd layers again (tried: 4.3). A layer may be left out that
    the engine has on top of the same layers, but with LAYOUT, where the blob itself must be there.
    """

    PLAIN = "plain"
    PACKED = "packed"
    LAYOUT = "layout"
    PLAIN_LAYOUT = "plain layout"

    @property
    def plain(self) -> bool:
        """Whether layers are sent uncompressed."""
        return self in (Form.PLAIN, Form.PLAIN_LAYOUT)

    @property
    def layout(self) -> bool:
        return self in (Form.LAYOUT, Form.PLAIN_LAYOUT)


_FIRST_WITH_ZSTD = (1, 42)  # Engine 23; tried: 20.10 ends such an archive with "unexpected EOF"


Chain = tuple[str, ...]


@dataclass
class Target:
    """An engine. `chains` are the layers that it has, every prefix of every image's, with the id of such an image."""

    engine: Engine
    form: Form
    chains: dict[Chain, str]

    @classmethod
    def of(cls, engine: Engine) -> Target:
        """Raises EngineError."""
        info, version = engine.info(), engine.version()
        return cls(engine, form_of(info, version), chains(_layers(engine)))

    def ask_again(self) -> None:
        """What it has by now."""
        self.chains = chains(_layers(self.engine))


def _layers(engine: Engine) -> dict[Chain, str]:
    """The diff ids of every image's layers, and the image's id."""
    found = {}
    for listed in engine.images([], steps=True):
        # Another process may have removed it since.
        if described := engine.image(listed["Id"]):
            found[tuple((described.get("RootFS") or {}).get("Layers") or ())] = listed["Id"]
    return found


def chains(images: Mapping[Chain, str]) -> dict[Chain, str]:
    return {layers[:n]: image for layers, image in images.items() for n in range(1, len(layers) + 1)}


def held(layers: Chain, known: Collection[Chain]) -> int:
    """How many of the layers, from the first on, are among the known chains."""
    return max((n for n in range(1, len(layers) + 1) if layers[:n] in known), default=0)


def form_of(info: Mapping[str, Any], version: Mapping[str, Any]) -> Form:
    status = [str(value) for pair in info.get("DriverStatus") or () for value in pair]
    if any("podman" in str(part.get("Name", "")).lower() for part in version.get("Components") or ()):
        return Form.PLAIN_LAYOUT
    if any("io.containerd.snapshotter" in value for value in status):
        return Form.LAYOUT
    try:
        api = tuple(int(part) for part in str(version.get("ApiVersion", "")).split("."))
    except ValueError:
        api = ()
    return Form.PACKED if api >= _FIRST_WITH_ZSTD else Form.PLAIN


def diff_ids(image: Image) -> Chain:
    return tuple(layer.diff_id for layer in image.layers)


def need_room(target: Target, needed: int) -> None:
    """Raises EngineError where fewer than `needed` bytes are free below the engine's root, where that is seen here."""
    root = Path(str(target.engine.info().get("DockerRootDir") or ""))
    if not target.engine.url.startswith("unix://") or not root.is_absolute() or not root.is_dir():
        return
    require_space(needed, root, hint=ENGINE_HINT)
