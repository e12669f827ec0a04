"""Keeps the layers of an interrupted pull.

Measured on Engine 20.10: when the client of a pull dies, the engine drops every layer, even extracted ones, and the
next pull fetches all of them again. An unnamed image of the layers so far keeps them. Loading it moves no layer and
takes some hundredths of a second.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from reprokit.engine import Engine
from reprokit.errors import ReprokitError
from reprokit.oci.layout import END, small_entries
from reprokit.oci.loader import first_layers, unfinished
from reprokit.oci.model import Image
from reprokit.oci.store import is_containerd, is_podman

_COMPLETE = ("Pull complete", "Already exists")


class Anchor:
    """Follows the events of a pull of `image` and keeps the complete layers. Containerd stores and podman keep them."""

    def __init__(self, engine: Engine, image: Image | None) -> None:
        self._engine, self._complete, self._last = engine, 0, ""
        # A layer that occurs twice in an image has only one event.
        unique = image is not None and len({layer.blob for layer in image.layers}) == len(image.layers)
        needed = unique and not is_podman(engine.version()) and not is_containerd(engine.info().get("DriverStatus"))
        self._image = image if needed else None

    def update(self, event: Mapping[str, Any]) -> None:
        """One event of `Engine.pull`. Layers become complete in order, the base first."""
        if self._image is None or event.get("status") not in _COMPLETE:
            return
        self._complete += 1
        if event["status"] == "Pull complete" and self._complete < len(self._image.layers):
            with suppress(ReprokitError):  # the pull continues without it
                self._keep(first_layers(self._image, self._complete))

    def drop(self) -> None:
        """Remove the unnamed images, once the pulled image exists."""
        if self._image is not None:
            for listed in unfinished(self._engine, self._image):
                with suppress(ReprokitError):
                    self._engine.remove_image(listed["Id"])

    def _keep(self, so_far: Image) -> None:
        self._engine.load(iter([small_entries([so_far]), END]))
        before, self._last = self._last, so_far.id
        if before:
            self._engine.remove_image(before)
