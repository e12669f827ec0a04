"""The work of one `reprokit export`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from reprokit.bundle import delta
from reprokit.bundle.container import snapshot
from reprokit.bundle.formats import FORMATS
from reprokit.bundle.layer_filter import CACHES, FilterReport
from reprokit.bundle.model import Metadata
from reprokit.bundle.selection import resolve
from reprokit.bundle.write import Changed, ExportJob
from reprokit.display import progress
from reprokit.engine import Engine
from reprokit.errors import UsageError
from reprokit.image.labels import ImageLabels
from reprokit.oci.store import Chain

NodeLayers = Callable[[str], Iterable[Chain]]


@dataclass(frozen=True)
class ExportRequest:
    """The arguments, as `reprokit export --help` explains them."""

    names: tuple[str, ...] = ()
    container: str = ""
    exclude: tuple[str, ...] = ()
    since: tuple[Path, ...] = ()
    inventories: tuple[Path, ...] = ()
    nodes: tuple[str, ...] = ()
    workspace: bool = False
    store: bool = False
    key: Path | None = None
    form: str = "rkit"

    def check(self, out: Path) -> None:
        """Raises UsageError if arguments contradict each other."""
        if bool(self.names) == bool(self.container):
            raise UsageError("name images, or one --container", hint="see `reprokit export --help`")
        if self.exclude and not self.container:
            raise UsageError("--exclude works with --container only: an image's layers never change")
        if self.form not in FORMATS:
            raise UsageError(f"no such format: {self.form!r}", hint=f"formats: {', '.join(FORMATS)}")
        if self.form != "rkit" and (
            self.key or self.workspace or self.store or self.since or self.inventories or self.nodes
        ):
            raise UsageError(
                f"--format {self.form} has complete images only",
                hint="leave out --format, or the options for deltas, extras and signatures",
            )
        if self.form == "squashfs" and len(self.names) > 1:
            raise UsageError("a squashfs has only one image", hint="export one image at a time")
        if not out.name:
            raise UsageError("the target is a folder that exists", str(out), "name a new one, or a file")
        if any(old.resolve() == out.resolve() for old in self.since):
            raise UsageError("a bundle cannot replace the one that it is made against", str(out))


def run(engine: Engine, request: ExportRequest, out: Path, node_layers: NodeLayers) -> tuple[Metadata, FilterReport]:
    """Run the export; `node_layers` gives the layers of a node's images by the node's name.

    Returns what was written, and a report of a container's files. `out` stays unchanged if it fails. Raises every
    kind of `reprokit.errors`.
    """
    with contextlib.ExitStack() as stack:
        images, changed, report = resolve(engine, request.names), Changed(), FilterReport()
        if request.container:
            patterns = (*CACHES, *request.exclude)
            image, changed, report = stack.enter_context(snapshot(engine, request.container, patterns))
            images = [image]
        labels = [found for each in images if (found := ImageLabels.read(each.labels)).recipe]
        if (request.workspace or request.store) and not labels:
            raise UsageError("these images have no recipe: there is no workspace and no lock to add")
        recipes = dict.fromkeys(each.recipe for each in labels)
        targets = [each.target for each in labels]
        present = chain(
            *map(delta.of_bundle, request.since),
            *map(delta.of_inventory, request.inventories),
            *map(node_layers, request.nodes),
        )
        job = ExportJob(
            engine,
            images,
            out,
            delta.excluded_layers(images, present),
            workspaces=tuple(recipes) if request.workspace else (),
            inputs=targets if request.store else (),
            key=request.key,
            changed=changed,
            progress=stack.enter_context(progress(f"writing {out.name}")),
        )
        return FORMATS[request.form](job), report
