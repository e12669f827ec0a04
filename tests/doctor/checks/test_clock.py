"""Clocks: of the machine, its engine and a node."""

from __future__ import annotations

import time
from datetime import datetime, timedelta, timezone

import pytest

from reprokit.doctor.checks import clock
from tests.support.examined import INFO, FakeMachine, PlainEngine


@pytest.mark.parametrize(("ahead", "rules"), [(0, set()), (-3600, {"clock.engine"}), (600, {"clock.engine"})])
def test_the_engines_clock(machine: FakeMachine, ahead: int, rules: set[str]) -> None:
    told = datetime.fromtimestamp(time.time() + ahead, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.123456789Z")
    machine.engine = PlainEngine({**INFO, "SystemTime": told})
    assert machine.rules(clock) == rules


@pytest.mark.parametrize("hours", [2, -5])
def test_the_engine_writes_its_own_time_zone(machine: FakeMachine, hours: int) -> None:
    there = datetime.now(timezone(timedelta(hours=hours)))
    written = f"{there:%Y-%m-%dT%H:%M:%S}.123456789{hours:+03d}:00"
    machine.engine = PlainEngine({**INFO, "SystemTime": written})
    assert machine.rules(clock) == set()


def test_a_nodes_clock(machine: FakeMachine) -> None:
    host = machine.host()
    host.shell.node = "lab1"
    machine.program("date", "echo $(($(/bin/date +%s) - 600))")
    (found,) = [finding for finding in clock.find(host) if finding.severity == "warning"]
    assert "lab1 is 6" in found.reason and "behind" in found.reason
