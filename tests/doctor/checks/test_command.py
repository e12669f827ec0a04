"""Another project's command `reprokit`."""

from __future__ import annotations

import pytest

from reprokit.doctor.checks import command
from tests.support.examined import FakeMachine


@pytest.mark.parametrize(("module", "rules"), [("reprokit.cli", {"command"}), ("reprokit.__main__", set())])
def test_the_first_command_on_path(machine: FakeMachine, module: str, rules: set[str]) -> None:
    machine.program("reprokit", f"from {module} import main")
    assert machine.rules(command) == rules
