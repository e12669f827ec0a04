"""The work of one `reprokit export`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from reprokit.bundle import delta
from reprokit.bundle.container import snapshot
from reprokit.bundle.formats import FORMATS
from reprokit.bundle.layer_filter import CACHES, FilterReport
from reprokit.bundle.model import ImageMetadata
from reprokit.bundle.selection import resolve
from reprokit.bundle.write import Changed, Extras
from reprokit.engine import LABEL, Engine
from reprokit.errors import UsageError
from reprokit.oci.read import EngineImage, Progress
from reprokit.oci.store import Chain

Say = Callable[[str], None]
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
        """Raises UsageError where arguments contradict each other."""
        if bool(self.names) == bool(self.container):
            raise UsageError("name images, or one --container", hint="see `reprokit export --help`")
        if self.exclude and not self.container:
            raise UsageError("--exclude works with --container only: an image's layers never change")
        if self.form not in FORMATS:
            raise UsageError(f"no such format: {self.form!r}", hint=f"formats: {', '.join(FORMATS)}")
        if self.form != "rkit" and (self.key or self.workspace or self.store or self._delta):
            raise UsageError(
                f"--format {self.form} has complete images only",
                hint="leave out --format, or the options for deltas, extras and signatures",
            )
        if self.form == "squashfs" and len(self.names) > 1:
            raise UsageError("a squashfs has only one image", hint="export one image at a time")
        if any(old.resolve() == out.resolve() for old in self.since):
            raise UsageError("a bundle cannot replace the one that it is made against", str(out))

    @property
    def _delta(self) -> bool:
        return bool(self.since or self.inventories or self.nodes)


@dataclass(frozen=True)
class ExportResult:
    """The written file: `size` in bytes, diff IDs of `absent` layers, and the files of a container."""

    size: int
    images: Sequence[ImageMetadata]
    absent: Sequence[str] = ()
    largest: Sequence[tuple[str, int]] = ()
    files_excluded: int = 0
    bytes_excluded: int = 0


def run(
    engine: Engine, request: ExportRequest, out: Path, node_layers: NodeLayers, say: Say, progress: Progress
) -> ExportResult:
    """Run the export; `node_layers` gives the layers of a node's images by the node's name.

    `out` stays unchanged where it fails. Raises every kind of `reprokit.errors`.
    """
    with _selected(engine, request, say) as (images, changed, report):
        target = chain(
            *map(delta.of_bundle, request.since),
            *map(delta.of_inventory, request.inventories),
            *map(node_layers, request.nodes),
        )
        without = delta.excluded_layers(images, target)
        written = FORMATS[request.form](engine, images, out, without, _extras(request, images), changed, say, progress)
        return ExportResult(
            size=_size(out),
            images=written.images,
            absent=written.absent,
            largest=report.largest,
            files_excluded=len(report.excluded),
            bytes_excluded=report.excluded.total(),
        )


@contextlib.contextmanager
def _selected(
    engine: Engine, request: ExportRequest, say: Say
) -> Iterator[tuple[list[EngineImage], Changed | None, FilterReport]]:
    if not request.container:
        yield resolve(engine, request.names), None, FilterReport()
        return
    with snapshot(engine, request.container, (*CACHES, *request.exclude), say) as found:
        yield [found.image], found.changed, found.report


def _extras(request: ExportRequest, images: Sequence[EngineImage]) -> Extras:
    recipes = [each.labels for each in images if each.labels.get(f"{LABEL}.recipe")]
    if (request.workspace or request.store) and not recipes:
        raise UsageError("these images have no recipe: there is no workspace and no lock to add")
    names = dict.fromkeys(labels[f"{LABEL}.recipe"] for labels in recipes)
    targets = [f"{labels[f'{LABEL}.recipe']}:{labels.get(f'{LABEL}.variant', '')}" for labels in recipes]
    return Extras(
        workspaces=tuple(names) if request.workspace else (),
        inputs=tuple(targets) if request.store else (),
        key=request.key,
    )


def _size(out: Path) -> int:
    if out.is_dir():
        return sum(file.stat().st_size for file in out.rglob("*") if file.is_file())
    return out.stat().st_size
