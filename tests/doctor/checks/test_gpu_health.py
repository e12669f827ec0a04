"""ECC, MIG, throttling and persistence, from recorded rows of nvidia-smi."""

from __future__ import annotations

import pytest

from reprokit.doctor.checks import gpu_health
from tests.support.examined import FakeMachine

CARD = "0000:65:00.0"


def rules(machine: FakeMachine, row: str, knows: str = "*") -> set[str]:
    """The rules for one GPU whose nvidia-smi knows only queries that match `knows`."""
    machine.gpu(CARD)
    machine.driver("535.54.03", CARD)
    machine.program(
        "nvidia-smi",
        f"case $1 in *pci.bus_id*) echo '0, 0000{CARD}, NVIDIA A100-SXM4-80GB, 535.54.03, 8.0' ;;\n"
        f"{knows}) echo '{row}' ;; *) echo 'Field is not a valid field to query.'; exit 2 ;; esac",
    )
    return machine.rules(gpu_health)


@pytest.mark.parametrize(
    ("row", "found"),
    [
        ("0, Enabled, 35, Enabled, 0, Disabled, 0x0000000000000001", set()),
        ("0, Enabled, 35, [N/A], [N/A], [N/A], 0x0000000000000000", set()),
        ("0, Disabled, 35, Enabled, 0, Disabled, 0x0", {"gpu_health.persistence"}),
        ("0, Enabled, 35, Enabled, 3, Disabled, 0x0", {"gpu_health.ecc"}),
        ("0, Enabled, 35, Enabled, 0, Enabled, 0x0", {"gpu_health.mig"}),
        ("0, Enabled, 93, Enabled, 0, Disabled, 0x0000000000000048", {"gpu_health.throttled"}),
        ("0, Enabled, 35, Enabled, 0, Disabled, 0x0000000000000004", set()),  # the power limit is usual under load
        ("7, Disabled, rubbish", set()),
        ("0, Enabled, 1e9, \x1b[31m, -5, x, 0xzz", set()),
    ],
)
def test_what_a_row_says(machine: FakeMachine, row: str, found: set[str]) -> None:
    assert rules(machine, row) == found


def test_a_driver_that_does_not_know_the_newer_fields(machine: FakeMachine) -> None:
    assert rules(machine, "0, Disabled, 35", knows="--query-gpu=index,persistence_mode,temperature.gpu") == {
        "gpu_health.persistence"
    }
