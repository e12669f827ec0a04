"""The forms in which images leave: a bundle, and what other tools read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from reprokit.bundle.collect import Wanted, Watch
from reprokit.bundle.formats import docker, folder, squashfs
from reprokit.bundle.model import Metadata
from reprokit.bundle.write import Changed, Extras, Say, write
from reprokit.engine import Engine


class Format(Protocol):
    """Writes images to `target`, whole or not at all, as `bundle.write.write` does; returns what it wrote."""

    def __call__(
        self,
        engine: Engine,
        wanted: Sequence[Wanted],
        target: Path,
        without: frozenset[str],
        extras: Extras,
        changed: Changed | None,
        say: Say,
        watch: Watch,
    ) -> Metadata: ...


FORMATS: Mapping[str, Format] = {
    "rkit": write,
    "docker": docker.write,
    "oci-dir": folder.write,
    "squashfs": squashfs.write,
}
