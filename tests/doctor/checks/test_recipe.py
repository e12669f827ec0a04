"""What a recipe needs, on a machine where some programs hang."""

from __future__ import annotations

import pytest

from reprokit.compat.model import Finding
from reprokit.doctor.bounded import NoAnswer
from reprokit.doctor.checks import disk, memory, recipe
from reprokit.doctor.examine import examine
from tests.support.examined import FakeMachine, target

NEEDS = {"gpu": "required", "memory": "1GiB", "disk": "999TiB"}


def findings(machine: FakeMachine) -> list[Finding]:
    machine.target = target({"base": "debian:12", "requires": NEEDS})
    return examine(machine.host(), [recipe], 60)


def hanging(*_: object) -> int:
    raise NoAnswer("no answer within 5 s")


def test_all_that_the_machine_lacks_is_found(machine: FakeMachine):
    assert {finding.rule for finding in findings(machine) if finding.severity == "error"} == {"host.gpu", "disk"}


@pytest.mark.parametrize(("probe", "left"), [((memory, "total"), "disk"), ((disk, "free_bytes"), "host.gpu")])
def test_a_program_that_hangs_hides_nothing_else_and_is_an_error(
    machine: FakeMachine, monkeypatch: pytest.MonkeyPatch, probe: tuple[object, str], left: str
):
    monkeypatch.setattr(*probe, hanging)
    found = {finding.rule: finding.severity for finding in findings(machine)}
    assert found[left] == found["host.gpu"] == found["no-answer"] == "error"
    assert "recipe" not in found
