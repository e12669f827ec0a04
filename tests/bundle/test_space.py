"""Whether a bundle fits on the disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reprokit.bundle.space import SpaceEstimate
from reprokit.errors import EngineError
from reprokit.oci.model import Layer

MB = 1_000_000


def test_before_the_first_layer_an_image_is_taken_to_shrink_to_a_third(tmp_path: Path) -> None:
    # Measured: the bundle of this image had 78 MB.
    assert 78 * MB < SpaceEstimate(240 * MB, tmp_path).needed(0, 0) < 90 * MB
    assert SpaceEstimate(240 * MB, tmp_path, copied=True).needed(40 * MB, 40 * MB) == 200 * MB


@pytest.mark.parametrize("ratio", [0.25, 0.5, 1.0])
def test_the_layers_that_are_packed_correct_the_estimate(tmp_path: Path, ratio: float) -> None:
    estimate = SpaceEstimate(1000 * MB, tmp_path)
    assert 500 * ratio * MB < estimate.needed(500 * MB, int(500 * ratio * MB)) < 600 * max(ratio, 0.3) * MB
    assert estimate.needed(1000 * MB, 1) == estimate.needed(1001 * MB, 1) == 0


def test_an_export_stops_before_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = 500 * MB
    monkeypatch.setattr("reprokit.host.disk.free_bytes", lambda folder: disk)

    def copied(blocks: Iterator[bytes], write: Callable[[bytes], object]) -> Layer:
        for block in blocks:
            write(block)
        return Layer("", 0, None)

    def write(block: bytes) -> None:
        nonlocal disk
        disk -= len(block)

    blocks = (bytes(MB) for _ in range(1000))
    with pytest.raises(EngineError, match="not enough disk space: need") as error:
        SpaceEstimate(1000 * MB, tmp_path).measured(copied)(blocks, write)
    assert disk > 300 * MB and error.value.where == str(tmp_path)
    assert error.value.hint.startswith("free ") and error.value.hint.endswith(" there, or write it elsewhere with -o")
