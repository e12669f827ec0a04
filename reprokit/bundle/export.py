"""The layers that a bundle excludes because the target has them on top of the same layers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from reprokit.bundle.container import CACHES, FilterReport, snapshot
from reprokit.bundle.formats import FORMATS
from reprokit.bundle.model import Metadata
from reprokit.bundle.write import Changed, ExportJob
from reprokit.display import progress
from reprokit.engine import Engine, ImageInfo
from reprokit.errors import UsageError
from reprokit.image.labels import ImageLabels, image_name
from reprokit.oci.read import engine_image
from reprokit.oci.store import Chain, LayerChains
from reprokit.recipe.find import is_recipe, recipe_file, target
from reprokit.untrusted.documents import parsed
from reprokit.untrusted.limits import DOCUMENT, LAYERS


def excluded_layers(images: Sequence[ImageInfo], target: Iterable[Chain]) -> frozenset[str]:
    """The diff IDs that the target has; `target` are its images' layers, from the base up."""
    chains = LayerChains((chain, "") for chain in target)
    present: set[str] = set()
    needed: set[str] = set()
    for image in images:
        count = chains.present(image.layers)
        present.update(image.layers[:count])
        needed.update(image.layers[count:])
    return frozenset(present - needed)


def of_bundle(path: Path) -> Iterator[Chain]:
    """The layers of a bundle that the target has loaded. Raises UsageError."""
    from reprokit.bundle.read import opened

    with opened(path) as bundle:
        yield from (image.diff_ids for image in bundle.images)


def of_inventory(path: Path) -> Iterator[Chain]:
    """The layers of a node: the output of `docker image inspect`. Raises UsageError."""
    try:
        with path.open("rb") as file:
            chains = [
                tuple(image["RootFS"].get("Layers") or ()) for image in parsed(file.read(DOCUMENT.most + 1), str(path))
            ]
    except OSError as error:
        raise UsageError(f"the inventory cannot be read: {error.strerror}", str(path)) from None
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        hint = "on the node: docker image inspect $(docker image ls -q) > FILE"
        raise UsageError(f"not an inventory of a node: {type(error).__name__}: {error}", str(path), hint) from None
    LAYERS.check(max(map(len, chains), default=0), "layers in an image", str(path))
    yield from chains


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
    """Run the export; `node_layers` returns the layers of the images on a node.

    Returns the metadata, and a report of a container's files. `out` stays unchanged if it fails. Raises every kind of
    `reprokit.errors`.
    """
    with contextlib.ExitStack() as stack:
        images, changed, report = resolve(engine, request.names), Changed(), FilterReport()
        if request.container:
            patterns = (*CACHES, *request.exclude)
            image, changed, report = stack.enter_context(snapshot(engine, request.container, patterns))
            images = [image]
        labels = [read for image in images if (read := ImageLabels.read(image.labels)).recipe]
        if (request.workspace or request.store) and not labels:
            raise UsageError("these images have no recipe: there is no workspace and no lock to add")
        present = chain(
            *map(of_bundle, request.since), *map(of_inventory, request.inventories), *map(node_layers, request.nodes)
        )
        job = ExportJob(
            engine,
            images,
            out,
            excluded_layers(images, present),
            workspaces=tuple(dict.fromkeys(read.recipe for read in labels)) if request.workspace else (),
            inputs=[read.target for read in labels] if request.store else (),
            key=request.key,
            changed=changed,
            progress=stack.enter_context(progress(f"writing {out.name}")),
        )
        return FORMATS[request.form](job), report


def resolve(engine: Engine, names: Sequence[str]) -> list[ImageInfo]:
    """Each image once, in the order of `names`. Raises UsageError with the command that builds a missing one."""
    return list({image.name: image for image in (_image(engine, name) for name in names)}.values())


def _image(engine: Engine, name: str) -> ImageInfo:
    if is_recipe(name):
        chosen = target(name)
        if engine.image(image_name(chosen)) is None:
            raise UsageError(f"{chosen.label} has not been built", hint=f"reprokit build {chosen.label}")
        return engine_image(engine, image_name(chosen))
    if "/" not in name and engine.image(name) is None:
        recipe_file(name.partition(":")[0])  # its error lists the recipes
    return engine_image(engine, name)
