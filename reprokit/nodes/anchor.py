"""Keeps the layers of an interrupted pull.

Measured on Engine 20.10: when the client of a pull dies, the engine drops every layer, even extracted ones, and the
next pull fetches all of them again. An unnamed image of the layers so far keeps them. Loading it moves no layer and
takes some hundredths of a second.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from reprokit.engine import Engine
from reprokit.errors import ReprokitError
from reprokit.nodes.registry_client import RemoteImage
from reprokit.oci.archive_writer import first_layers, without_layers
from reprokit.oci.layout import END
from reprokit.oci.loader import LOADING
from reprokit.oci.model import Image, Layer
from reprokit.oci.store import Form, form_of

_WHOLE = ("Pull complete", "Already exists")


class Anchor:
    """Follows a pull's events and keeps the complete layers. Stores of containerd and podman do not need it."""

    def __init__(self, engine: Engine, seen: RemoteImage | None) -> None:
        self._engine, self._whole, self._last = engine, 0, ""
        # A layer that occurs twice in an image has only one event.
        plain = seen is not None and len(set(seen.blobs)) == len(seen.blobs)
        wanted = plain and form_of(engine.info(), engine.version()) in (Form.PLAIN, Form.ZSTD)
        self._seen = seen if wanted else None

    def take(self, event: Mapping[str, Any]) -> None:
        """One event of `Engine.pull`. Layers become complete in order, the base first."""
        if self._seen is None or event.get("status") not in _WHOLE:
            return
        self._whole += 1
        if event["status"] == "Pull complete" and self._whole < len(self._seen.blobs):
            with suppress(ReprokitError):  # the pull continues without it
                self._hold(self._seen, self._whole)

    def drop(self) -> None:
        """Remove the unnamed images, once the pulled image exists."""
        if self._seen is not None:
            for listed in self._engine.images([f"{LOADING}={_image(self._seen).id}"]):
                with suppress(ReprokitError):
                    self._engine.remove_image(listed["Id"])

    def _hold(self, seen: RemoteImage, count: int) -> None:
        held = first_layers(_image(seen), count, LOADING, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
        self._engine.load(iter([without_layers(held), END]))
        before, self._last = self._last, held.id
        if before:
            self._engine.remove_image(before)


def _image(seen: RemoteImage) -> Image:
    return Image("", seen.config, tuple(Layer(diff_id, 0, None) for diff_id in seen.diff_ids))
