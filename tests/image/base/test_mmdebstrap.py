"""The output of scripts in mmdebstrap, and what its failures mean."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from reprokit.errors import EngineError, SourceError
from reprokit.image.base.mmdebstrap import explain, script_output, sources_of
from reprokit.image.base.release import Release
from tests.support import users
from tests.support.processes import send_when_asleep, sleeping
from tests.support.waiting import wait_for

BOOKWORM = Release("debian", "12", "bookworm")


@pytest.fixture
def mmdebstrap() -> None:
    if not shutil.which("mmdebstrap"):
        pytest.skip("mmdebstrap is not installed")


@pytest.mark.parametrize(
    ("lines", "kind", "words"),
    [
        (["W: GPG error: http://x focal InRelease: ... NO_PUBKEY 3B4F", "E: failed"], EngineError, "keyring"),
        (["Err:1 http://x bookworm InRelease", "  Could not resolve 'x'"], SourceError, "cannot be reached"),
        (["E: Failed to fetch http://x/InRelease  502  Bad Gateway [IP: 127.0.0.1]"], SourceError, "proxies in force"),
        (
            ["E: The repository 'http://x stretch Release' does not have a Release file."],
            SourceError,
            "left its archive",
        ),
        (["E: cannot create /home/u/tmp: Permission denied; cannot create /home/u/tmp/x"], EngineError, "set TMPDIR"),
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
        script_output(BOOKWORM, "true", [], {})
    assert "apt-get install mmdebstrap" in error.value.hint


@pytest.mark.slow
def test_an_interrupt_ends_it_at_once_and_leaves_nothing(short_path: Path, mmdebstrap: None):
    scratch = short_path / "scratch"
    scratch.mkdir()
    seconds = str(1_000_000 + uuid.uuid4().int % 1_000_000)
    driver = f"""
from reprokit.image.base.mmdebstrap import script_output
from reprokit.image.base.release import Release
release = Release("debian", "12", "bookworm")
script_output(release, "sleep {seconds}", [], {{"TMPDIR": {str(scratch)!r}}})
"""
    process = subprocess.Popen([sys.executable, "-c", driver], stderr=subprocess.PIPE, text=True)
    wait_for(lambda: sleeping(seconds))
    assert any(scratch.iterdir())
    send_when_asleep(process.pid)
    _, errors = process.communicate(timeout=200)
    assert errors.splitlines()[-1] == "KeyboardInterrupt"
    assert not sleeping(seconds) and not any(scratch.iterdir())


@pytest.mark.slow
def test_output_of_a_script_and_its_failure(mmdebstrap: None, reported: list[str]):
    assert script_output(BOOKWORM, "echo 'a  b'; echo c", [], {}) == "a  b\nc\n"
    assert "a  b" not in "".join(reported)
    with pytest.raises(SourceError):
        script_output(BOOKWORM, "false; echo never", [], {})


@pytest.mark.slow
def test_a_user_without_subordinate_ids_can_ask(short_path: Path, mmdebstrap: None):
    users.give(short_path)
    command = ["mmdebstrap", "--simulate", "--variant=extract", "--skip=update", "bookworm", "-"]
    refused, output = users.as_user(
        lambda: (
            subprocess.run(command, capture_output=True, text=True, check=False).stderr,
            script_output(BOOKWORM, 'cat "$1/etc/apt/sources.list"', [], {"TMPDIR": str(short_path)}),
        )
    )
    # Without a mode; with fakechroot there is one.
    assert os.geteuid() != 0 or shutil.which("fakechroot") or "unable to pick chroot mode" in refused
    assert re.search(r"^deb \S+ bookworm main$", output, re.MULTILINE)


def test_sources_name_no_file_of_this_machine(monkeypatch):
    text = 'deb [signed-by="/host.gpg"] http://archive.test/debian x main\ndeb http://archive.test/s x-security main\n'
    monkeypatch.setattr("reprokit.image.base.mmdebstrap.script_output", lambda *arguments: text)
    lines = sources_of(BOOKWORM).splitlines()
    assert lines == ["deb http://archive.test/debian x main", "deb http://archive.test/s x-security main"]
