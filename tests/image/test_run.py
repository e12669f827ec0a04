"""What a build asks of the machine before it starts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from reprokit.host import disk
from reprokit.image.run import check_host
from tests.support.rendering import target


@pytest.mark.parametrize(("free", "warned"), [(3 << 29, True), (9 << 30, False)])
def test_too_little_disk_space_is_reported_in_the_units_of_check(tmp_path, monkeypatch, free, warned):
    engine: Any = SimpleNamespace(url="unix:///engine.sock", info=lambda: {"DockerRootDir": "/engine"})
    monkeypatch.setattr(disk, "free_bytes", {"/engine": free}.__getitem__)
    said: list[str] = []
    check_host(engine, target(tmp_path, requires={"disk": "8GiB"}), said.append)
    line = "disk space may run out below /engine: paper:v needs 8.0 GiB, 1.5 GiB free"
    assert said == ([line] if warned else [])
