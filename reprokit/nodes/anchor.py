"""Layers that the engine has pulled, kept where the pull ends early.

Tried on Engine 20.10: a pull whose client goes away drops every layer, also those that are whole and extracted, and the
next one fetches them all again. An image of the layers so far, without a name, holds them; loading it takes no bytes of
theirs and some hundredths of a second.
"""

from __future__ import annotations

import io
import json
import tarfile
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from reprokit.bundle import give
from reprokit.bundle.giving import BEGUN
from reprokit.bundle.model import Image, Layer
from reprokit.bundle.target import Form, form_of
from reprokit.engine import Engine
from reprokit.errors import ReprokitError
from reprokit.nodes.peek import Seen

_WHOLE = ("Pull complete", "Already exists")


class Anchor:
    """Told of a pull's events, it holds the layers that are whole. Stores of containerd and podman need none."""

    def __init__(self, engine: Engine, seen: Seen | None) -> None:
        self._engine, self._whole, self._last = engine, 0, ""
        # A layer that an image has twice is told of once.
        plain = seen is not None and len(set(seen.blobs)) == len(seen.blobs)
        wanted = plain and form_of(engine.info(), engine.version()) in (Form.PLAIN, Form.PACKED)
        self._seen = seen if wanted else None

    def take(self, event: Mapping[str, Any]) -> None:
        """One event of `Engine.pull`; layers become whole one after another, the base first."""
        if self._seen is None or event.get("status") not in _WHOLE:
            return
        self._whole += 1
        if event["status"] == "Pull complete" and self._whole < len(self._seen.blobs):
            with suppress(ReprokitError):  # the pull goes on without
                self._hold(self._seen, self._whole)

    def drop(self) -> None:
        """Once the image holds its layers itself."""
        if self._seen is not None:
            for listed in self._engine.images([f"{BEGUN}={_image(self._seen).id}"]):
                with suppress(ReprokitError):
                    self._engine.remove_image(listed["Id"])

    def _hold(self, seen: Seen, count: int) -> None:
        held = give.begun(_image(seen), count, BEGUN, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
        layers = [f"{layer.diff_id.removeprefix('sha256:')}.tar" for layer in held.layers]
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            for name, content in (
                ("config.json", held.config),
                ("manifest.json", json.dumps([{"Config": "config.json", "Layers": layers}]).encode()),
            ):
                entry = tarfile.TarInfo(name)
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))
        self._engine.load(iter([archive.getvalue()]))
        before, self._last = self._last, held.id
        if before:
            self._engine.remove_image(before)


def _image(seen: Seen) -> Image:
    return Image("", seen.config, tuple(Layer(diff_id, 0, None) for diff_id in seen.diff_ids))
