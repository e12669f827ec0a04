"""GPUs: on the PCI bus, of the driver, of nvidia-smi, of the Container Toolkit, and in containers."""

from __future__ import annotations

import shutil

import pytest

from reprokit.compat.model import Finding
from reprokit.container.gpu import Rung
from reprokit.doctor import gpus
from reprokit.doctor.checks import gpu as checks
from reprokit.engine import Engine
from tests.support.examined import INFO, FakeMachine, PlainEngine
from tests.support.waiting import wait_for

CARD = "0000:65:00.0"
FOUR = ["0000:17:00.0", CARD, "0000:b3:00.0", "0000:ca:00.0"]
A100 = "NVIDIA A100-SXM4-80GB"
FALLEN = "echo '[1.0] NVRM: Xid (PCI:0000:{bus}:00): 79, GPU has fallen off the bus.'"


def row(index: int, address: str, name: str = "NVIDIA GeForce RTX 3090", **more: str) -> dict[str, str]:
    fields = {"index": str(index), "pci.bus_id": f"0000{address.upper()}", "name": name}
    return {**fields, "driver_version": "535.54.03", "compute_cap": "8.6", **more}


def cards(machine: FakeMachine, *addresses: str) -> FakeMachine:
    for address in addresses:
        machine.gpu(address)
    machine.driver("535.54.03", *addresses)
    return machine


def problem(machine: FakeMachine, *names: str) -> Finding:
    """The only finding that is not just information."""
    (finding,) = [finding for finding in machine.find(*names) if finding.severity != "info"]
    return finding


def test_four_that_work_and_none(machine: FakeMachine) -> None:
    machine.file("sys/bus/pci/devices/0000:00:02.0/vendor", "0x8086\n")
    (finding,) = machine.find("gpu", "gpu_driver")
    assert finding.subjects == ("gpus=0",)
    assert machine.find("gpu_toolkit") == []
    cards(machine, *FOUR).smi(*(row(index, address) for index, address in enumerate(FOUR)))
    findings = machine.find("gpu", "gpu_driver")
    assert {finding.severity for finding in findings} == {"info"}
    assert sum("RTX 3090 (sm_86)" in finding.subjects[0] for finding in findings) == 4
    assert any("CUDA 11.1 or later" in finding.reason for finding in findings)


@pytest.mark.slow
def test_cards_fall_off_the_bus_as_in_the_notes(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    """First nvidia-smi hangs, then it finds no devices, while the bus lists four."""
    cards(machine, *FOUR).program("nvidia-smi", "trap '' TERM\nsleep 9999")
    shutil.rmtree(machine.root / "proc/driver/nvidia/gpus" / FOUR[2])
    with monkeypatch.context() as patience:
        patience.setattr(gpus, "SMI_S", 2)
        findings = [finding for finding in machine.find("gpu", "gpu_container") if finding.severity != "info"]
    assert [finding.rule for finding in findings] == ["gpu.hangs", "gpu_container"]
    assert "nvidia-smi does not answer" in findings[0].reason and "reboot" in findings[0].remedy
    assert f"4 NVIDIA GPUs, of which the driver does not have {FOUR[2]}:" in findings[0].reason
    machine.program("nvidia-smi", "echo No devices were found; exit 6")
    machine.program("dmesg", FALLEN.format(bus="65"))
    (lost,) = [finding for finding in machine.find("gpu") if finding.severity == "error"]
    assert lost.rule == "gpu.lost" and "No devices were found" in lost.reason
    assert "4 NVIDIA GPUs" in lost.reason and "Xid" in lost.reason


def test_one_of_four_is_named(machine: FakeMachine) -> None:
    cards(machine, *FOUR).smi(*(row(index, address) for index, address in enumerate(FOUR[:3])))
    missing = problem(machine, "gpu")
    assert FOUR[3] in missing.reason and FOUR[0] not in missing.reason
    # A login in a job of Slurm, or in a container, may have only some.
    assert missing.severity == "warning" and "this login has only some" in missing.reason
    machine.program("dmesg", FALLEN.format(bus="ca"))
    missing = problem(machine, "gpu")
    assert missing.severity == "error" and FOUR[3] in missing.reason and "Xid" in missing.reason


def test_a_card_whose_configuration_reads_as_ones(machine: FakeMachine) -> None:
    machine.gpu(FOUR[0], dead=True)
    cards(machine, CARD).smi(row(0, CARD))
    (lost,) = [finding for finding in machine.find("gpu") if finding.severity == "error"]
    assert lost.rule == "gpu.lost" and FOUR[0] in lost.reason and CARD not in lost.reason


def test_unlike_gpus_are_each_named(machine: FakeMachine) -> None:
    cards(machine, *FOUR[:2]).smi(row(0, FOUR[0]), row(1, FOUR[1], A100))
    (unlike,) = [finding for finding in machine.find("gpu") if finding.rule == "gpu.unlike"]
    assert "A100" in unlike.subjects[0] and "3090" in unlike.subjects[0]


def test_hostile_names_of_gpus_are_only_shown(machine: FakeMachine) -> None:
    cards(machine, CARD)
    hostile = ["\x1b]0;owned\x07RTX", "\u202e0903 XTR", "x" * 300, "%s%n", "`id`", "$(id)", "reprokit:module 1.2"]
    for name in hostile:
        machine.smi(row(0, CARD, name))
        findings = machine.find("gpu", "gpu_driver")
        assert {finding.severity for finding in findings} == {"info"}, name
        assert all(len(subject) < 600 for finding in findings for subject in finding.subjects)
        assert any(finding.subjects == ("driver=535.54.03",) for finding in findings)


def test_a_driver_that_is_missing_or_another(machine: FakeMachine) -> None:
    machine.gpu(CARD, driver="")
    assert machine.rules("gpu_driver") == {"gpu_driver.missing"}
    for name in ("nouveau", "vfio-pci"):
        (machine.root / "sys/bus/pci/devices" / CARD / "driver").unlink(missing_ok=True)
        machine.gpu(CARD, driver=name)
        foreign = machine.find("gpu_driver")[0]
        assert foreign.rule == "gpu_driver.foreign" and name in foreign.reason and CARD in foreign.reason


def test_libraries_of_another_version_than_the_loaded_module(machine: FakeMachine) -> None:
    cards(machine, CARD)
    machine.program("nvidia-smi", "echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18")
    machine.file("usr/lib/x86_64-linux-gnu/libnvidia-ml.so.550.54.14")
    (machine.root / "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.535.54.03").unlink()
    (mismatch,) = [finding for finding in machine.find("gpu_driver") if finding.severity == "error"]
    assert mismatch.rule == "gpu_driver.mismatch" and "reboot" in mismatch.remedy
    assert "535.54.03" in mismatch.reason and "550.54.14" in mismatch.reason


def test_missing_device_files_can_be_made(machine: FakeMachine) -> None:
    cards(machine, CARD).smi(row(0, CARD))
    assert machine.rules("gpu_driver") == set()
    (machine.root / "dev/nvidia-uvm").unlink()
    assert machine.rules("gpu_driver") == {"gpu_driver.uvm"}
    for name in ("nvidiactl", "nvidia0"):
        (machine.root / "dev" / name).unlink()
    (missing,) = [finding for finding in machine.find("gpu_driver") if finding.severity == "error"]
    assert missing.fix == "sudo nvidia-modprobe -u -c=0"


ECC = {"ecc.mode.current": "Enabled", "ecc.errors.uncorrected.volatile.total": "0"}


@pytest.mark.parametrize(
    ("fields", "rules"),
    [
        ({**ECC, "mig.mode.current": "Disabled", "clocks_event_reasons.active": "0x0000000000000001"}, set()),
        ({name: "[N/A]" for name in (*ECC, "mig.mode.current")}, set()),
        ({"persistence_mode": "Disabled"}, {"gpu_health.persistence"}),
        ({**ECC, "ecc.errors.uncorrected.volatile.total": "3"}, {"gpu_health.ecc"}),
        ({"mig.mode.current": "Enabled"}, {"gpu_health.mig"}),
        ({"clocks_throttle_reasons.active": "0x0000000000000048"}, {"gpu_health.throttled"}),
        ({"clocks_event_reasons.active": "0x0000000000000004"}, set()),  # the power limit is usual under load
        ({"temperature.gpu": "1e9", "ecc.mode.current": "\x1b[31m", "clocks_event_reasons.active": "0xzz"}, set()),
        ({"ecc.errors.uncorrected.volatile.total": "-5", "mig.mode.current": "x"}, set()),
    ],
)
def test_the_health_of_a_gpu(machine: FakeMachine, fields: dict[str, str], rules: set[str]) -> None:
    cards(machine, CARD).smi(row(0, CARD, A100, **{"persistence_mode": "Enabled", **fields}))
    assert machine.rules("gpu_health") == rules


def test_the_container_toolkit_and_cdi(machine: FakeMachine) -> None:
    machine.working_gpu()
    (missing,) = [finding for finding in machine.find("gpu_toolkit") if finding.severity == "error"]
    assert missing.rule == "gpu_toolkit.missing" and "nvidia-ctk runtime configure" in missing.remedy
    # Files of CDI from elsewhere need no toolkit.
    machine.engine = PlainEngine(INFO, cdi=("nvidia.com/gpu=0",))
    assert [finding.severity for finding in machine.find("gpu_toolkit")] == ["info", "info"]
    machine.program("nvidia-ctk", "echo 'NVIDIA Container Toolkit CLI version 1.17.4'")
    library = "hostPath: /usr/lib/x86_64-linux-gnu/libcuda.so."
    machine.file("etc/cdi/nvidia.yaml", f"{library}550.54.14\n")
    assert machine.rules("gpu_toolkit") == set()
    machine.file("etc/cdi/nvidia.yaml", f"{library}535.54.03\n{library}1\n")  # of an earlier driver
    (old,) = [finding for finding in machine.find("gpu_toolkit") if finding.severity == "error"]
    assert "535.54.03" in old.reason and old.fix.startswith("sudo nvidia-ctk cdi generate")
    (machine.root / "etc/cdi/nvidia.yaml").unlink()
    machine.engine = PlainEngine({**INFO, "CDISpecDirs": ["/etc/cdi"]})
    assert machine.rules("gpu_toolkit") == {"gpu_toolkit.cdi"}


def test_containers_of_a_real_engine(
    machine: FakeMachine, engine: Engine, debian_12: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.working_gpu()
    machine.engine = engine  # type: ignore[assignment]
    (refused,) = machine.find("gpu_container")
    assert refused.rule == "gpu_container.refused" and "nvidia-ctk" in refused.remedy
    assert "could not select device driver" in refused.reason
    # Without a GPU request any engine starts them. A base then has no nvidia-smi.
    monkeypatch.setattr(checks, "ladder", lambda request, support: [Rung("CDI", ())])
    (empty,) = machine.find("gpu_container")
    assert empty.rule == "gpu_container.empty" and "nvidia-smi" in empty.reason
    monkeypatch.setattr(checks, "_base", lambda engine: "")
    (accepted,) = machine.find("gpu_container")
    assert accepted.severity == "info" and "accepts the request" in accepted.reason
    wait_for(lambda: not engine.containers([checks.ROLE]))  # other tests start theirs, too


@pytest.mark.parametrize(
    ("lines", "rule"),
    [
        (["GPU 0: NVIDIA A100 (UUID: GPU-1)"], "gpu_container"),
        (["Failed to initialize NVML: Unknown Error"], "gpu_container.empty"),
        ([], "gpu_container.empty"),
    ],
)
def test_what_a_container_lists(
    machine: FakeMachine, engine: Engine, monkeypatch: pytest.MonkeyPatch, lines: list[str], rule: str
) -> None:
    machine.working_gpu()
    machine.engine = engine  # type: ignore[assignment]
    monkeypatch.setattr(checks, "_gpus_in_container", lambda engine, requests: lines)
    (finding,) = machine.find("gpu_container")
    assert finding.rule == rule
