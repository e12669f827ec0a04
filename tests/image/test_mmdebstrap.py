"""What mmdebstrap's failures mean."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from reprokit.errors import EngineError, SourceError
from reprokit.image.mmdebstrap import explain, mmdebstrap
from reprokit.image.release import Release
from tests.support.processes import sleeping


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


def test_an_interrupt_ends_it_at_once_and_leaves_nothing(tmp_path: Path):
    if not shutil.which("mmdebstrap"):
        pytest.skip("mmdebstrap is not installed")
    scratch, tar = tmp_path / "scratch", tmp_path / "base.tar"
    scratch.mkdir()
    scratch.chmod(0o777)
    seconds = str(1_000_000 + uuid.uuid4().int % 1_000_000)
    arguments = ["--variant=minbase", "--format=tar", f"--setup-hook=sleep {seconds}", "bookworm", "-"]
    driver = f"""
from pathlib import Path
from reprokit.image.mmdebstrap import mmdebstrap
from reprokit.image.release import Release
release = Release("debian", "12", "bookworm")
mmdebstrap(release, {arguments!r}, {{"TMPDIR": {str(scratch)!r}}}, print, Path({str(tar)!r}))
"""
    process = subprocess.Popen([sys.executable, "-c", driver], stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not (begun := sleeping(seconds)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert begun and any(scratch.iterdir())
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert said.splitlines()[-1] == "KeyboardInterrupt"
    assert not sleeping(seconds) and not any(scratch.iterdir())
