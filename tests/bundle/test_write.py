"""Where a bundle is written: the file of an unfinished one, and whether the disk has space for it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reprokit.bundle.export import ExportRequest
from reprokit.bundle.partial_file import claimed
from reprokit.bundle.space import SpaceEstimate
from reprokit.bundle.write import ExportJob, claim, write
from reprokit.errors import EngineError, UsageError
from reprokit.oci.model import Layer

MB = 1_000_000


def test_a_pipe_or_a_device_is_not_replaced(tmp_path: Path):
    pipe = tmp_path / "x.rkit"
    os.mkfifo(pipe)
    with pytest.raises(UsageError, match="the target is no regular file"):
        claim(pipe, pytest.fail)
    assert pipe.is_fifo() and list(tmp_path.iterdir()) == [pipe]


def test_a_key_that_cannot_sign_is_reported_before_the_engine_works(tmp_path: Path):
    with pytest.raises(UsageError, match="the key cannot sign"):
        write(ExportJob(None, [], tmp_path / "no folder" / "x.rkit", key=tmp_path / "no key"))


@pytest.mark.parametrize("form", ["rkit", "docker", "oci-dir", "squashfs"])
def test_a_target_without_a_name_is_refused(form):
    for target in (".", "/"):
        with pytest.raises(UsageError, match="the target is a folder that exists"):
            ExportRequest(names=["x"], form=form).check(Path(target))


def test_the_file_of_a_killed_process_is_kept(tmp_path: Path):
    (tmp_path / "partial").write_bytes(b"left")
    with claimed(tmp_path / "partial", pytest.fail) as file:
        assert file.read() == b"left"
        file.write(b" and more")
    assert (tmp_path / "partial").read_bytes() == b"left and more"


def test_two_processes_wait_for_each_other(tmp_path: Path):
    said: list[str] = []

    def renamed(line: str) -> None:
        said.append(line)
        first.close()

    first = claimed(tmp_path / "partial", pytest.fail)
    with claimed(tmp_path / "partial", renamed) as file:
        assert file.read() == b""
    assert len(said) == 1


@pytest.mark.parametrize("plant", [os.symlink, os.link, lambda _, partial: os.mkfifo(partial)])
def test_a_planted_link_or_pipe_is_refused(tmp_path: Path, plant):
    mine = tmp_path / "profile"
    mine.write_bytes(b"mine")
    plant(mine, tmp_path / "partial")
    with pytest.raises(OSError):
        claimed(tmp_path / "partial", pytest.fail)
    assert mine.read_bytes() == b"mine"


def test_before_the_first_layer_an_image_is_taken_to_shrink_to_a_third(tmp_path: Path):
    # Measured: the bundle of this image had 78 MB.
    assert 78 * MB < SpaceEstimate(240 * MB, tmp_path).needed(0, 0) < 90 * MB
    assert SpaceEstimate(240 * MB, tmp_path, copied=True).needed(40 * MB, 40 * MB) == 200 * MB


@pytest.mark.parametrize("ratio", [0.25, 0.5, 1.0])
def test_the_layers_that_are_packed_correct_the_estimate(tmp_path: Path, ratio: float):
    estimate = SpaceEstimate(1000 * MB, tmp_path)
    assert 500 * ratio * MB < estimate.needed(500 * MB, int(500 * ratio * MB)) < 600 * max(ratio, 0.3) * MB
    assert estimate.needed(1000 * MB, 1) == estimate.needed(1001 * MB, 1) == 0


def test_an_export_stops_before_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
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
