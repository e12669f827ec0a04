"""The limits of the login's processes."""

from __future__ import annotations

from reprokit.doctor.checks import ulimits
from tests.support.examined import FakeMachine

TABLE = """\
Limit                     Soft Limit           Hard Limit           Units
Max file size             unlimited            unlimited            bytes
Max processes             96365                96365                processes
Max open files            {files}                 1048576              files
Max address space         unlimited            unlimited            bytes
"""


def test_few_open_files(machine: FakeMachine) -> None:
    machine.file("proc/self/limits", TABLE.format(files=1024))
    assert machine.rules(ulimits) == set()
    machine.file("proc/self/limits", TABLE.format(files=256))
    (found,) = [finding for finding in machine.find(ulimits) if finding.severity == "warning"]
    assert found.rule == "ulimits.files" and "ulimit -n" in found.remedy
