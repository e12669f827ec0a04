"""An engine's image store: the archive that it loads, the layers that it has, its free space."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from reprokit.engine import Engine, EngineInfo, EngineVersion
from reprokit.host.disk import ENGINE_HINT, require_space
from reprokit.oci.layout import manifest_of
from reprokit.oci.model import Image, digest_of

Chain = tuple[str, ...]
_FIRST_WITH_ZSTD = (1, 42)  # Engine 23; 20.10 ends such an archive with "unexpected EOF"


class Form(Enum):
    """The archive that an engine loads.

    PLAIN: uncompressed layers, for Docker before Engine 23, and for podman, which could not save an image with zstd
    layers again (tried: 4.3). GZIP, ZSTD: compressed ones. BLOBS: the compressed blobs that a containerd store keeps.
    Layers that the engine has on top of the same layers need no content, except with BLOBS, where the blob itself must
    be present.
    """

    PLAIN = "plain"
    GZIP = "gzip"
    ZSTD = "zstd"
    BLOBS = "blobs"

    def id_of(self, image: Image) -> str:
        """The ID that the engine gives the image: containerd stores use the manifest's digest."""
        return digest_of(manifest_of(image)) if self is Form.BLOBS else image.id


def form_of(info: EngineInfo, version: EngineVersion) -> Form:
    """The form for an engine."""
    if version.podman:
        return Form.PLAIN
    if info.containerd:
        return Form.BLOBS
    try:
        api = tuple(int(part) for part in version.api.split("."))
    except ValueError:
        api = ()
    return Form.ZSTD if api >= _FIRST_WITH_ZSTD else Form.PLAIN


class LayerChains:
    """The layers that a store has: it knows a layer only on top of the same layers."""

    def __init__(self, images: Iterable[tuple[Chain, str]] = ()) -> None:
        self._images: dict[Chain, str] = {}
        for layers, image_id in images:
            self.add(layers, image_id)

    def add(self, layers: Chain, image_id: str = "") -> None:
        """The layers of an image, from the base up."""
        self._images |= {layers[:n]: image_id for n in range(1, len(layers) + 1)}

    def present(self, layers: Chain) -> int:
        """The number of an image's layers, from the base up, that the store has."""
        return max((n for n in range(1, len(layers) + 1) if layers[:n] in self._images), default=0)

    def image_with(self, layers: Chain) -> str:
        """The ID of an image that begins with these layers, which are present."""
        return self._images[layers]


@dataclass
class ImageStore:
    """The images of an engine."""

    engine: Engine
    form: Form
    chains: LayerChains

    @classmethod
    def of(cls, engine: Engine) -> ImageStore:
        """Raises EngineError."""
        return cls(engine, form_of(engine.info(), engine.version()), LayerChains(_images(engine)))

    def refresh(self) -> None:
        """Ask the engine again for its layers."""
        self.chains = LayerChains(_images(self.engine))

    def require_space(self, needed: int) -> None:
        """Raises EngineError if the engine's root folder is visible here and lacks `needed` bytes."""
        root = Path(self.engine.info().root)
        if self.engine.url.startswith("unix://") and root.is_absolute() and root.is_dir():
            require_space(needed, root, hint=ENGINE_HINT)


def _images(engine: Engine) -> Iterable[tuple[Chain, str]]:
    for image in engine.images([], steps=True):
        yield engine.layers(image.id), image.id  # without layers if another process has removed it since
