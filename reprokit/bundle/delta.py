"""The layers that a bundle excludes because the target has them on top of the same layers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from reprokit.engine import ImageInfo
from reprokit.errors import UsageError
from reprokit.oci.store import Chain, LayerChains
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
            found = [
                tuple(image["RootFS"].get("Layers") or ()) for image in parsed(file.read(DOCUMENT.most + 1), str(path))
            ]
    except OSError as error:
        raise UsageError(f"the inventory cannot be read: {error.strerror}", str(path)) from None
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        hint = "on the node: docker image inspect $(docker image ls -q) > FILE"
        raise UsageError(f"not an inventory of a node: {type(error).__name__}: {error}", str(path), hint) from None
    LAYERS.check(max(map(len, found), default=0), "layers in an image", str(path))
    yield from found
