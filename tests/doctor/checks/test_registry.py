"""The engine's registry mirrors and proxies."""

from __future__ import annotations

import pytest

from reprokit.doctor.checks import registry
from tests.support.examined import INFO, FakeMachine, PlainEngine


def test_a_login_with_a_proxy_and_an_engine_without(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    assert machine.rules(registry) == set()
    monkeypatch.setenv("https_proxy", "http://proxy.test:3128")
    assert machine.rules(registry) == {"registry.proxy"}
    machine.engine = PlainEngine({**INFO, "HttpsProxy": "http://me:hunter2@proxy.test:3128"})
    assert machine.rules(registry) == set()
    assert "hunter2" not in str(machine.find(registry)) and "proxy.test" in str(machine.find(registry))
    machine.engine = PlainEngine({**INFO, "HttpProxy": f"me:{'hunter2' * 99}@proxy.test:3128"})
    assert "hunter2" not in str(machine.find(registry)) and "proxy.test" in str(machine.find(registry))


def test_mirrors_are_listed(machine: FakeMachine) -> None:
    machine.engine = PlainEngine({**INFO, "RegistryConfig": {"Mirrors": ["https://mirror.test/"]}})
    assert any("mirror.test" in finding.reason for finding in machine.find(registry))
