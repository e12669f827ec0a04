"""`reprokit load`: a failure ends with its cause."""

from __future__ import annotations

import pytest

from reprokit.bundle import load
from reprokit.errors import EngineError


def test_a_failed_load_ends_with_its_cause(call, monkeypatch: pytest.MonkeyPatch, tmp_path):
    def fail(*_: object) -> None:
        raise EngineError("write /var/lib/docker/tmp/x: no space left on device", "gnn.rkit")

    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(load, "checked", fail)
    error = call("load", "gnn.rkit").exception
    assert isinstance(error, EngineError)
    assert error.explanation[0].startswith("cause: the disk of the container engine is full")
    assert "\nline 1: the disk of the container engine is full" in call("explain", "--last").stdout
