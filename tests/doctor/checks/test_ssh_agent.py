"""Keys for nodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from reprokit.doctor.checks import ssh_agent
from tests.support.examined import FakeMachine


@pytest.fixture(autouse=True)
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config.yaml").write_text("nodes: {lab1: me@192.0.2.1}\n")
    monkeypatch.setenv("REPROKIT_CONFIG", str(tmp_path / "config.yaml"))
    monkeypatch.setenv("HOME", str(tmp_path))


def test_no_key_anywhere(machine: FakeMachine, tmp_path: Path) -> None:
    machine.program("ssh", "")
    machine.program("ssh-add", "exit 2")
    assert machine.rules(ssh_agent) == {"ssh_agent.keys"}
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh/id_ed25519.pub").write_text("x")
    assert machine.rules(ssh_agent) == set()


def test_an_agent_with_keys(machine: FakeMachine) -> None:
    machine.program("ssh", "")
    machine.program("ssh-add", "exit 0")
    assert machine.rules(ssh_agent) == set()


def test_without_nodes_nothing_is_needed(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPROKIT_CONFIG", "/nonexistent.yaml")
    machine.program("ssh-add", "exit 2")
    assert machine.rules(ssh_agent) == set()
