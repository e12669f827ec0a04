"""The progress of an image that the engine pushes or pulls, from the engine's events."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from reprokit.display import ByteProgress
from reprokit.formatting import counted

_THERE = ("Layer already exists", "Already exists")
# A containerd store has no event after the download.
_MOVED = ("Pushed", "Pull complete", "Download complete")
_PUSHED = re.compile(r"digest: (sha256:[0-9a-f]{64})")


class TransferProgress:
    """Adds up the events; `progress(done, total)` gets the bytes of the layers that have started."""

    def __init__(self, progress: ByteProgress) -> None:
        self._progress = progress
        self._layers: dict[str, tuple[int, int]] = {}
        self.present: set[str] = set()
        self.moved: set[str] = set()
        self.digest = ""

    def update(self, event: Mapping[str, Any]) -> None:
        """One event of `Engine.push` or `Engine.pull`."""
        layer, status = str(event.get("id", "")), str(event.get("status", ""))
        if found := _PUSHED.search(status):
            self.digest = found[1]
        if status.startswith(_THERE):
            self.present.add(layer)
        elif status in _MOVED:
            self.moved.add(layer)
        detail = event.get("progressDetail") or {}
        if status in ("Downloading", "Pushing") and detail.get("current"):
            # The engine only estimates the size of a layer that it compresses while sending.
            done = int(detail["current"])
            self._layers[layer] = done, max(done, int(detail.get("total") or 0))
            self._progress(sum(d for d, _ in self._layers.values()), sum(t for _, t in self._layers.values()))

    def described(self, verb: str) -> str:
        """`2 layers pushed, 5 already there`."""
        return f"{counted(len(self.moved), 'layer')} {verb}, {len(self.present)} already present"
