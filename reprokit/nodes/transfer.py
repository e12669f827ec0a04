"""How far the engine is with an image that it pushes or pulls, from its own events."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

_THERE = ("Layer already exists", "Already exists")
# A containerd store says nothing after the download.
_MOVED = ("Pushed", "Pull complete", "Download complete")
_PUSHED = re.compile(r"digest: (sha256:[0-9a-f]{64})")


class Transfer:
    """Adds up the events; `watch(done, total)` gets the bytes of the layers that have begun to move."""

    def __init__(self, watch: Callable[[int, int], None]) -> None:
        self._watch = watch
        self._layers: dict[str, tuple[int, int]] = {}
        self.there: set[str] = set()
        self.moved: set[str] = set()
        self.digest = ""

    def take(self, event: Mapping[str, Any]) -> None:
        """One event of `Engine.push` or `Engine.pull`."""
        layer, status = str(event.get("id", "")), str(event.get("status", ""))
        if found := _PUSHED.search(status):
            self.digest = found[1]
        if status.startswith(_THERE):
            self.there.add(layer)
        elif status in _MOVED:
            self.moved.add(layer)
        detail = event.get("progressDetail") or {}
        if status in ("Downloading", "Pushing") and detail.get("current"):
            # A layer's size is a guess of the engine's where it compresses on the way.
            done = int(detail["current"])
            self._layers[layer] = done, max(done, int(detail.get("total") or 0))
            self._watch(sum(d for d, _ in self._layers.values()), sum(t for _, t in self._layers.values()))

    def described(self, verb: str) -> str:
        """`2 layers pushed, 5 already there`."""
        moved = len(self.moved)
        return f"{moved} layer{'' if moved == 1 else 's'} {verb}, {len(self.there)} already there"
