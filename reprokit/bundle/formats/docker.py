"""An archive for `docker load` of any version, without reprokit: layers uncompressed, as Engine 22 and older want them.

It is an OCI layout all the same, so that skopeo and podman read it as `docker-archive` and as `oci-archive`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from reprokit.bundle import layout
from reprokit.bundle.collect import Wanted, Watch
from reprokit.bundle.model import Metadata
from reprokit.bundle.pack import copy
from reprokit.bundle.write import Changed, Extras, Say, becoming, described, gather, require_all
from reprokit.engine import Engine
from reprokit.host.disk import require_space


def write(
    engine: Engine,
    wanted: Sequence[Wanted],
    target: Path,
    without: frozenset[str],
    extras: Extras,
    changed: Changed | None,
    say: Say,
    watch: Watch,
) -> Metadata:
    """See `Format`."""
    with becoming(target, say) as tar:
        require_space(max(each.size for each in wanted), target.parent)
        images = gather(engine, wanted, tar, without, changed, watch, copy)
        for path, content in layout.small_files(images):
            tar.add(path, content)
        require_all(images, tar.entries)
    return described(images, wanted, say)
