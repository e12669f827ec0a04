"""A machine of files and programs, for the checks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from reprokit.doctor import examined, gpus
from tests.support.examined import FakeMachine


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeMachine:
    made = FakeMachine(tmp_path / "root", tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{made.programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path / "home"))
    # The machine that runs the tests is busy.
    monkeypatch.setattr(examined, "ENGINE_S", 60)
    monkeypatch.setattr(examined, "_GPU_S", 60)
    monkeypatch.setattr(gpus, "SMI_S", 30)
    made.program("dmesg", "")
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    return made
