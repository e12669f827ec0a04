"""What mmdebstrap's failures mean."""

from __future__ import annotations

import shutil

import pytest

from reprokit.errors import EngineError, SourceError
from reprokit.image.mmdebstrap import explain, mmdebstrap
from reprokit.image.release import Release


@pytest.mark.parametrize(
    ("lines", "kind", "words"),
    [
        (
            ["W: GPG error: http://x focal InRelease: ... NO_PUBKEY 3B4F", "E: mmdebstrap failed"],
            EngineError,
            "keyring",
        ),
        (["E: unable to pick chroot mode: newuidmap"], EngineError, "run as root"),
        (
            ["Err:1 http://x bookworm InRelease", "  Could not resolve 'x'", "E: apt-get update failed"],
            SourceError,
            "cannot be reached",
        ),
        (
            ["E: The repository 'http://x stretch Release' does not have a Release file."],
            SourceError,
            "left its archive",
        ),
        (["I: automatically chosen mode: fakechroot", "E: hookhelper failed"], EngineError, "--add-subuids"),
        (["tar: write error: No space left on device"], EngineError, "free space"),
    ],
)
def test_why_a_bootstrap_failed(lines: list[str], kind: type, words: str):
    error = explain(lines, Release("ubuntu", "20.04", "focal"))
    assert isinstance(error, kind)
    assert words in error.hint
    assert "ubuntu 20.04 (focal) could not be bootstrapped" in error.message


def test_without_mmdebstrap(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(EngineError, match="mmdebstrap is not installed") as error:
        mmdebstrap(Release("debian", "12", "bookworm"), [], {}, pytest.fail)
    assert "apt-get install mmdebstrap" in error.value.hint
