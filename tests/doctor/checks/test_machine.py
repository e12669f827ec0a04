"""The machine: processors, memory, disks, kernel, clock, limits, locale, the command itself, and a recipe's needs."""

from __future__ import annotations

import time
from datetime import datetime, timedelta, timezone

import pytest

from reprokit.compat.model import Finding
from reprokit.doctor.bounded import NoAnswer
from reprokit.doctor.checks import CHECKS
from reprokit.doctor.checks import machine as checks
from reprokit.doctor.examine import examine
from tests.support.disk import Disk
from tests.support.examined import INFO, FakeMachine, PlainEngine, target


@pytest.mark.parametrize(
    ("ahead_s", "hours", "rules"),
    [(0, 0, set()), (-3600, 0, {"clock.engine"}), (600, 0, {"clock.engine"}), (0, 2, set()), (0, -5, set())],
)
def test_the_engines_clock(machine: FakeMachine, ahead_s: int, hours: int, rules: set[str]) -> None:
    """It writes its own time zone."""
    now = datetime.fromtimestamp(time.time() + ahead_s, timezone(timedelta(hours=hours)))
    zone = f"{hours:+03d}:00" if hours else "Z"
    machine.engine = PlainEngine({**INFO, "SystemTime": f"{now:%Y-%m-%dT%H:%M:%S}.123456789{zone}"})
    assert machine.rules("clock") == rules


def test_a_nodes_clock(machine: FakeMachine) -> None:
    host = machine.host()
    host.shell.node = "lab1"
    machine.program("date", "echo $(($(/bin/date +%s) - 600))")
    (finding,) = [finding for finding in checks.clock(host) if finding.severity == "warning"]
    assert "lab1 is 6" in finding.reason and "behind" in finding.reason


def test_processors(machine: FakeMachine) -> None:
    machine.program("nproc", "echo 4")
    machine.file("proc/loadavg", "0.10 0.2 0.3 1/200 99\n")
    for number, governor in enumerate(["performance", "powersave"]):
        machine.file(f"sys/devices/system/cpu/cpu{number}/cpufreq/scaling_governor", f"{governor}\n")
    assert machine.rules("cpu") == {"cpu.governor"}
    machine.file("proc/loadavg", "9.50 0.2 0.3 1/200 99\n")
    assert machine.rules("cpu") == {"cpu.governor", "cpu.load"}


def test_the_kernel_the_limits_and_the_first_command_on_path(machine: FakeMachine) -> None:
    machine.program("modinfo", "exit 1")
    machine.file("proc/filesystems", "nodev\tsysfs\n\text4\n")
    machine.program("uname", "echo 3.10.0-1160.el7")
    assert machine.rules("kernel") == {"kernel.version", "kernel.overlay"}
    machine.file("proc/filesystems", "nodev\tsysfs\nnodev\toverlay\n")
    machine.program("uname", "echo 6.1.0-18-amd64")
    assert machine.rules("kernel") == set()
    for files, rules in ((1024, set()), (256, {"ulimits.files"})):
        head = "Limit            Soft Limit  Hard Limit  Units\n"
        machine.file("proc/self/limits", f"{head}Max processes    96365       96365       processes\n"
                     f"Max open files   {files}        1048576     files\n")  # fmt: skip
        assert machine.rules("ulimits") == rules
    assert "ulimit -n" in " ".join(finding.remedy for finding in machine.find("ulimits"))
    for module, rules in (("reprokit.cli", {"command"}), ("reprokit.__main__", set())):
        machine.program("reprokit", f"from {module} import main")
        assert machine.rules("command") == rules


@pytest.mark.parametrize(
    ("name", "rules"),
    [("C.UTF-8", set()), ("C", {"locale.charset"}), ("xx_YY.UTF-8", {"locale"}), ("\x1b[31m", {"locale"})],
)
def test_locales(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch, name: str, rules: set[str]) -> None:
    monkeypatch.setenv("LC_ALL", name)
    assert machine.rules("locale") == rules


def meminfo(machine: FakeMachine, total: int, free: int, swap: int) -> None:
    lines = {"MemTotal": total, "MemFree": 1, "MemAvailable": free, "SwapTotal": swap, "SwapFree": swap}
    machine.file("proc/meminfo", "".join(f"{name}:   {gib << 20} kB\n" for name, gib in lines.items()))


def df(machine: FakeMachine, kilobytes: str, inodes: str) -> None:
    machine.program("df", f"echo Head; case $* in *-i*) echo '{inodes}' ;; *) echo '{kilobytes}' ;; esac")


def test_memory(machine: FakeMachine) -> None:
    for total, free, swap, rules in ((32, 30, 0, set()), (4, 3, 0, {"memory.swap"}), (4, 3, 8, set())):
        meminfo(machine, total, free, swap)
        assert machine.rules("memory") == rules
    meminfo(machine, 32, 10, 8)
    machine.target = target({"base": "debian:12", "shm": "40GiB", "requires": {"memory": "16GiB"}})
    assert machine.rules("memory") == {"memory.available", "memory.shm"}
    machine.target = None
    meminfo(machine, 32, 30, 0)
    machine.file("sys/fs/cgroup/memory.max", f"{2 << 30}\n")
    assert machine.rules("memory") == {"memory.swap"}


@pytest.mark.parametrize(
    ("kilobytes", "inodes", "rules"),
    [
        ("/dev/sd a 90000000 1 80000000 1% /", "/dev/sda 900000 1 899999 1% /", set()),
        ("/dev/sda 90000000 1 800000 99% /", "/dev/sda 900000 1 899999 1% /", {"disk.little"}),
        ("/dev/sda 90000000 1 80000000 1% /", "/dev/sda 900000 1 99 100% /", {"disk.inodes"}),
        ("/dev/sda 90000000 1 80000000 1% /", "btrfs 0 0 0 - /", set()),
        ("rubbish \x1b[2J", "% % %", set()),
    ],
)
def test_what_df_prints(machine: FakeMachine, kilobytes: str, inodes: str, rules: set[str]) -> None:
    df(machine, kilobytes, inodes)
    assert machine.rules("disk") == rules


def test_a_full_disk_does_not_stop_the_check(machine: FakeMachine, disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    disk.limit("size=4k")
    for name in ("REPROKIT_HOME", "TMPDIR"):
        monkeypatch.setenv(name, str(disk.folder / "home"))
    machine.engine = PlainEngine({**INFO, "DockerRootDir": str(disk.folder / "not/yet")})
    remedies = {f.subjects[0].partition("=")[0]: f.remedy for f in machine.find("disk") if f.rule == "disk.full"}
    assert remedies.keys() >= {"disk.engine", "disk.store"} and "docker image prune" in remedies["disk.engine"]


def test_what_a_recipe_lacks_is_named_in_the_words_of_check(machine: FakeMachine) -> None:
    meminfo(machine, 32, 30, 0)
    df(machine, f"/dev/sda 900000000 1 {20 << 20} 1% /", "")
    machine.target = target({"base": "debian:12", "requires": {"disk": "30GiB", "memory": "64GiB"}})
    errors = {finding.rule: finding for finding in machine.find("recipe") if finding.severity == "error"}
    assert errors["memory"].subjects == ("requires.memory=64.0 GiB", "host.memory=32.0 GiB")
    assert errors["memory"].reason == "not enough memory for the paper's runs: the kernel would kill them"
    assert errors["disk"].subjects == ("requires.disk=30.0 GiB", "host.disk_free=20.0 GiB")
    assert "docker image prune" in errors["disk"].remedy and len(errors) == 2


def test_a_program_that_hangs_hides_no_other_need_and_is_an_error(
    machine: FakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.target = target({"base": "debian:12", "requires": {"gpu": "required", "memory": "1GiB", "disk": "999TiB"}})

    def severities() -> dict[str, str]:
        findings: list[Finding] = examine(machine.host(), {"recipe": CHECKS["recipe"]}, 60)
        return {finding.rule: finding.severity for finding in findings if finding.severity == "error"}

    def hanging(*_: object) -> int:
        raise NoAnswer("no answer within 5 s")

    assert severities().keys() == {"host.gpu", "disk"}
    for probe, rules in (("memory_bytes", {"disk", "host.gpu"}), ("free_bytes", {"host.gpu"})):
        with monkeypatch.context() as patched:
            patched.setattr(checks, probe, hanging)
            assert severities().keys() == {*rules, "no-answer"}
