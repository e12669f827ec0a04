"""Which layers need not travel, because the target has them where they are wanted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from reprokit.bundle.collect import Wanted
from reprokit.errors import UsageError
from reprokit.untrusted.documents import parsed
from reprokit.untrusted.limits import DOCUMENT, LAYERS

Chain = tuple[str, ...]


def left_out(wanted: Sequence[Wanted], there: Iterable[Chain]) -> frozenset[str]:
    """The diff ids of what the target has, `there` being its images' layers from the base up.

    Engines know a layer only upon the same layers as before: what lies upon others is sent.
    """
    chains = {chain[: i + 1] for chain in there for i in range(len(chain))}
    held: set[str] = set()
    needed: set[str] = set()
    for image in wanted:
        for i, layer in enumerate(image.layers):
            (held if image.layers[: i + 1] in chains else needed).add(layer)
    return frozenset(held - needed)


def of_bundle(path: Path) -> Iterator[Chain]:
    """The images of a bundle that the target has loaded. Raises UsageError."""
    from reprokit.bundle.read import opened

    with opened(path) as bundle:
        yield from (tuple(layer.diff_id for layer in image.layers) for image in bundle.images)


def of_inventory(path: Path) -> Iterator[Chain]:
    """The images of a node as JSON: what `docker image inspect` prints, or a saved `Inventory`. Raises UsageError."""
    try:
        with path.open("rb") as file:
            value = parsed(file.read(DOCUMENT.most + 1), str(path))
        if isinstance(value, list):
            found = [tuple(image["RootFS"].get("Layers") or ()) for image in value]
        else:
            found = [tuple(image["layers"]) for image in value["images"]]
    except OSError as error:
        raise UsageError(f"the inventory cannot be read: {error.strerror}", str(path)) from None
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        hint = "there: docker image inspect $(docker image ls -q) > FILE"
        raise UsageError(f"this is no inventory of a node: {type(error).__name__}: {error}", str(path), hint) from None
    LAYERS.check(max(map(len, found), default=0), "layers in an image", str(path))
    yield from found


def of_node(name: str) -> Iterator[Chain]:
    """The images that a node has now. Raises UsageError, SourceError, EngineError."""
    from reprokit.nodes.config import find
    from reprokit.nodes.inventory import inventory
    from reprokit.nodes.ssh import Connection

    with Connection(find(name)) as connection:
        yield from (image.layers for image in inventory(connection).images)
