"""The export formats: bundles, and the formats of other tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from reprokit.bundle.formats import docker, folder, squashfs
from reprokit.bundle.model import Metadata
from reprokit.bundle.write import Changed, Extras, Say, write
from reprokit.engine import Engine
from reprokit.oci.read import EngineImage, Progress


class Format(Protocol):
    """Writes images to `target`, completely or not at all, as `bundle.write.write` does; returns the metadata."""

    def __call__(
        self,
        engine: Engine,
        images: Sequence[EngineImage],
        target: Path,
        without: frozenset[str],
        extras: Extras,
        changed: Changed | None,
        say: Say,
        progress: Progress,
    ) -> Metadata: ...


FORMATS: Mapping[str, Format] = {
    "rkit": write,
    "docker": docker.write,
    "oci-dir": folder.write,
    "squashfs": squashfs.write,
}
