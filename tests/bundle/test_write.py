"""What an export writes and where: its file and space, layers that it excludes, signature, squashfs."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reprokit.bundle import signature
from reprokit.bundle.export import ExportRequest, excluded_layers, of_inventory
from reprokit.bundle.formats import enroot_files
from reprokit.bundle.resumable_tar import claim, claimed
from reprokit.bundle.write import ExportJob, SpaceEstimate, write
from reprokit.display import reporting
from reprokit.engine import ImageInfo
from reprokit.errors import EngineError, UsageError, WorkFailed
from reprokit.oci.model import Layer
from tests.support.strangers import new_key

MB = 1_000_000


def test_a_pipe_or_a_device_is_not_replaced(tmp_path: Path):
    pipe = tmp_path / "x.rkit"
    os.mkfifo(pipe)
    with pytest.raises(UsageError, match="the target is no regular file"):
        claim(pipe)
    assert pipe.is_fifo() and list(tmp_path.iterdir()) == [pipe]


def test_a_key_that_cannot_sign_is_reported_before_the_engine_works(tmp_path: Path):
    with pytest.raises(UsageError, match="the key cannot sign"):
        write(ExportJob(None, [], tmp_path / "no folder" / "x.rkit", key=tmp_path / "no key"))


@pytest.mark.parametrize("form", ["rkit", "docker", "oci-dir", "squashfs"])
def test_a_target_without_a_name_is_refused(form):
    for target in (".", "/"):
        with pytest.raises(UsageError, match="the target is a folder that exists"):
            ExportRequest(names=["x"], form=form).check(Path(target))


def test_the_file_of_a_killed_process_is_kept_and_two_processes_wait_for_each_other(tmp_path: Path):
    (tmp_path / "partial").write_bytes(b"left")
    with claimed(tmp_path / "partial") as file:
        assert file.read() == b"left"
        file.write(b" and more")
    assert (tmp_path / "partial").read_bytes() == b"left and more"
    (tmp_path / "partial").unlink()
    said: list[str] = []

    def renamed(line: str) -> None:
        said.append(line)
        first.close()

    first = claimed(tmp_path / "partial")
    with reporting(renamed), claimed(tmp_path / "partial") as file:
        assert file.read() == b""
    assert len(said) == 1


def test_a_planted_link_or_pipe_is_refused(tmp_path: Path):
    mine, partial = tmp_path / "profile", tmp_path / "partial"
    mine.write_bytes(b"mine")
    for plant in (partial.symlink_to, partial.hardlink_to, lambda target: os.mkfifo(partial)):
        plant(mine)
        with pytest.raises(OSError):
            claimed(partial)
        assert mine.read_bytes() == b"mine"
        partial.unlink()


def test_before_the_first_layer_an_image_is_taken_to_shrink_to_a_third(tmp_path: Path):
    # Measured: the bundle of this image had 78 MB.
    assert 78 * MB < SpaceEstimate(240 * MB, tmp_path).needed(0, 0) < 90 * MB
    assert SpaceEstimate(240 * MB, tmp_path, copied=True).needed(40 * MB, 40 * MB) == 200 * MB
    # The layers that are packed correct the estimate.
    estimate = SpaceEstimate(1000 * MB, tmp_path)
    for ratio in (0.25, 0.5, 1.0):
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


def _image(*layers: str) -> ImageInfo:
    return ImageInfo("id", ("x:1",), size=1, layers=layers)


def test_layers_on_top_of_the_same_layers_are_excluded_unless_another_image_needs_them():
    assert excluded_layers([_image("a", "b", "c")], [("a", "b", "d")]) == {"a", "b"}
    assert excluded_layers([_image("a", "b", "c")], [("b", "c")]) == frozenset()
    assert excluded_layers([_image("a", "b")], []) == frozenset()
    assert excluded_layers([_image("a", "b"), _image("c", "b")], [("a", "b")]) == {"a"}


def test_an_inventory_is_read_and_other_files_are_refused(tmp_path: Path):
    inspected = [{"RootFS": {"Type": "layers", "Layers": ["c"]}}, {"RootFS": {"Type": "layers"}}]
    (tmp_path / "i").write_text(json.dumps(inspected))
    assert list(of_inventory(tmp_path / "i")) == [("c",), ()]
    for other in ({"images": []}, [{"Name": "a container"}], ["x"], 1, None):
        (tmp_path / "i").write_text(json.dumps(other))
        with pytest.raises(UsageError, match="not an inventory"):
            list(of_inventory(tmp_path / "i"))
    with pytest.raises(UsageError, match="cannot be read"):
        list(of_inventory(tmp_path / "none"))


def fstab(volumes: list[str]) -> tuple[str, list[str]]:
    """`/etc/fstab` of an image with these volumes, and what was said."""
    said: list[str] = []
    with reporting(said.append):
        files = dict(enroot_files({"Volumes": {path: {} for path in volumes}}))
    return files["/etc/fstab"].decode(), said


def test_volumes_are_lines_of_fstab_unless_they_would_mount_folders_of_the_host():
    """enroot expands variables in the file, and mounts its lines on the host."""
    bad = ["/../../home", "/a/../../..", "/x none bind\n${HOME} /root none rbind,rw #", "/with space", "/$HOME", "home"]
    line = "${ENROOT_ROOTFS}/data/x-1 /data/x-1 none x-create=dir,bind,rw,nosuid,nodev\n"
    assert fstab(["/data/x-1"]) == (line, [])
    text, said = fstab([*bad, "/data/x-1"])
    assert text == line and len(said) == 1 and all(repr(path) in said[0] for path in bad)


TEXT = signature.statement(b"{}", b'{"a": 1}')


def test_a_signature_names_its_key_and_fits_no_other_text(tmp_path):
    key, other = new_key(tmp_path, "one"), new_key(tmp_path, "two")
    signed = signature.sign(TEXT, key)
    listed = subprocess.run(["ssh-keygen", "-l", "-f", str(key)], capture_output=True, text=True).stdout
    fingerprint = listed.split()[1]
    assert signature.verify(TEXT, signed) == fingerprint
    public = key.with_suffix(".pub")
    assert signature.verify(TEXT, signed, public) == fingerprint
    (tmp_path / "allowed").write_text(f"# ours\nme@lab {public.read_text()}")
    assert signature.verify(TEXT, signed, tmp_path / "allowed") == f"me@lab {fingerprint}"
    with pytest.raises(WorkFailed, match="does not match the bundle"):
        signature.verify(signature.statement(b"{}", b'{"a": 2}'), signed)
    with pytest.raises(WorkFailed, match="not an allowed key"):
        signature.verify(TEXT, signed, other.with_suffix(".pub"))
    with pytest.raises(WorkFailed, match="does not match the bundle"):
        signature.verify(TEXT, b"nonsense")


def test_a_key_that_cannot_sign_is_named(tmp_path):
    (tmp_path / "key").write_text("nonsense")
    with pytest.raises(UsageError) as error:
        signature.sign(TEXT, tmp_path / "key")
    assert error.value.where == str(tmp_path / "key")
