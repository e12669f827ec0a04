"""The bytes of an image by block, and the bytes that images share. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from reprokit.engine.info import HistoryStep
from reprokit.image.shell import block_of

Steps = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class SizedImage:
    """An image on an engine: the diff IDs of its layers, and block and bytes of each step that added files."""

    name: str
    layers: tuple[str, ...]
    steps: Steps

    @property
    def blocks(self) -> dict[str, int]:
        """Bytes by block."""
        return _sums(self.steps)

    @property
    def size(self) -> int:
        return sum(count for _, count in self.steps)

    def shared(self, other: SizedImage) -> Steps:
        """The first steps whose layers an engine stores once for both images."""
        common = _common(self.layers, other.layers)
        # An empty layer has no step here, so equal sizes must confirm the number of equal layers.
        return self.steps[: min(common, _common([n for _, n in self.steps], [n for _, n in other.steps]))]


def sized_image(name: str, layers: Sequence[str], history: Sequence[HistoryStep]) -> SizedImage:
    """An image from its diff IDs, and an engine's history, newest step first."""
    return SizedImage(name, tuple(layers), _steps(history))


def sizes_by_block(history: Sequence[HistoryStep]) -> dict[str, int]:
    """Bytes by block from an engine's history, newest step first; steps after the last block are `settings`."""
    return _sums(_steps(history))


def stored_together(images: Sequence[SizedImage]) -> int:
    """Bytes that an engine stores for all of them, each layer once."""
    total = 0
    for number, image in enumerate(images):
        total += image.size - max((_size(image.shared(other)) for other in images[:number]), default=0)
    return total


def freed(image: SizedImage, others: Sequence[SizedImage]) -> int:
    """Bytes that removing the image frees while the others stay."""
    return image.size - max((_size(image.shared(other)) for other in others), default=0)


def _steps(history: Sequence[HistoryStep]) -> Steps:
    sizes: list[tuple[str, int]] = []
    waiting: list[int] = []
    for step in reversed(history):
        waiting += [step.size] if step.size > 0 else []
        if block := block_of(step.command):
            sizes += [(block, count) for count in waiting]
            waiting = []
    return (*sizes, *(("settings", count) for count in waiting))


def _sums(steps: Steps) -> dict[str, int]:
    sums: dict[str, int] = {}
    for block, count in steps:
        sums[block] = sums.get(block, 0) + count
    return sums


def _size(steps: Steps) -> int:
    return sum(count for _, count in steps)


def _common(first: Sequence[Any], other: Sequence[Any]) -> int:
    """The length of the common beginning."""
    for number, (a, b) in enumerate(zip(first, other, strict=False)):
        if a != b:
            return number
    return min(len(first), len(other))
