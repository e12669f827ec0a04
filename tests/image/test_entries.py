"""The lists of image IDs in reprokit's own state."""

from __future__ import annotations

import errno
import os
from types import SimpleNamespace

import pytest

from reprokit.errors import EngineError
from reprokit.image.entries import EntryList
from reprokit.image.made import MadeEntry

ENGINE = SimpleNamespace(images=lambda *_, **__: [], info=dict, url="here")


def test_a_full_disk_is_named_as_everywhere(tmp_path, monkeypatch):
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path))
    found = EntryList("made.json", MadeEntry, "images that reprokit made")

    def full(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(EngineError) as caught, found.changing(ENGINE):
        pass
    assert caught.value.message == "the list of images that reprokit made cannot be written: No space left on device"
    assert caught.value.hint == "free space there"
    assert caught.value.where.endswith("made.json") and found.read() == {}
