"""The engine's storage driver."""

from __future__ import annotations

import pytest

from reprokit.doctor.checks import storage
from tests.support.examined import INFO, FakeMachine, PlainEngine


@pytest.mark.parametrize(
    ("info", "rules"),
    [
        (INFO, set()),
        ({**INFO, "Driver": "overlayfs", "DriverStatus": [["driver-type", "io.containerd.snapshotter.v1"]]}, set()),
        ({**INFO, "Driver": "vfs"}, {"storage.driver"}),
        ({**INFO, "Driver": "devicemapper"}, {"storage.driver"}),
        ({**INFO, "DriverStatus": [["Supports d_type", "false"]]}, {"storage.d_type"}),
        ({"DriverStatus": [[1], None, "x", [None, "false"]], "Driver": 3}, set()),
    ],
)
def test_what_an_engine_reports(machine: FakeMachine, info: object, rules: set[str]) -> None:
    machine.engine = PlainEngine(info)
    assert machine.rules(storage) == rules
