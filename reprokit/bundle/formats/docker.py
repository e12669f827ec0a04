"""An archive for `docker load` of any version: layers are uncompressed, as Engine 22 and older require.

It is an OCI layout, too, so skopeo and podman read it as `docker-archive` and as `oci-archive`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from reprokit.bundle.model import Metadata
from reprokit.bundle.write import Changed, Extras, Say, becoming, described, gather, require_all
from reprokit.engine import Engine
from reprokit.host.disk import require_space
from reprokit.oci.compress import copy
from reprokit.oci.layout import docker_manifest, layout_files
from reprokit.oci.read import EngineImage, Progress


def write(
    engine: Engine,
    images: Sequence[EngineImage],
    target: Path,
    without: frozenset[str],
    extras: Extras,
    changed: Changed | None,
    say: Say,
    progress: Progress,
) -> Metadata:
    """See `Format`."""
    with becoming(target, say) as tar:
        require_space(max(each.size for each in images), target.parent)
        found = gather(engine, images, tar, without, changed, progress, copy)
        for path, content in [*layout_files(found), docker_manifest(found)]:
            tar.add(path, content)
        require_all(found, tar.entries)
    return described(found, images, say)
