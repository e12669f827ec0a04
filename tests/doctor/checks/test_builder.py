"""BuildKit in the Docker CLI."""

from __future__ import annotations

import pytest

from reprokit.doctor.checks import builder
from tests.support.examined import FakeMachine


@pytest.mark.parametrize(
    ("version", "buildx", "there"),
    [
        ("Docker version 24.0.7, build afdd53b", "github.com/docker/buildx v0.11.2", "yes"),
        ("Docker version 24.0.7, build afdd53b", "", "no"),
        ("Docker version 20.10.24, build 297e128", "", "yes"),
        ("", "", "no"),
    ],
)
def test_clients(machine: FakeMachine, version: str, buildx: str, there: str) -> None:
    answers = f"case $1 in --version) echo '{version}' ;; *) echo '{buildx}' ;; esac"
    machine.program("docker", answers)
    (found,) = machine.find(builder)
    assert found.subjects == (f"buildkit={there}",)
