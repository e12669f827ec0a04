"""Small tars, made in memory."""

from __future__ import annotations

import io
import tarfile

from reprokit.tarfiles import tar_of


def test_files_have_their_content_mode_and_owner():
    with tarfile.open(fileobj=io.BytesIO(tar_of({"/opt/a": b"1", "b": b""}, 0o600, 7, 8))) as tar:
        entries = [(m.name, m.mode, m.uid, m.gid, tar.extractfile(m).read()) for m in tar]
    assert entries == [("opt/a", 0o600, 7, 8, b"1"), ("b", 0o600, 7, 8, b"")]


def test_equal_files_are_equal_bytes():
    assert tar_of({"a": b"1"}) == tar_of({"a": b"1"}) != tar_of({"a": b"2"})
