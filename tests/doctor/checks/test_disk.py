"""Free space and inodes, on a real small disk and from recorded answers of df."""

from __future__ import annotations

import pytest

from reprokit.doctor.checks import disk as disk_check
from reprokit.doctor.checks import recipe
from tests.support.disk import Disk
from tests.support.examined import INFO, FakeMachine, PlainEngine, target


def test_a_full_disk_is_found_and_does_not_stop_the_check(
    machine: FakeMachine, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk.limit("size=4k")
    for name in ("REPROKIT_HOME", "TMPDIR"):
        monkeypatch.setenv(name, str(disk.folder / "home"))
    machine.engine = PlainEngine({**INFO, "DockerRootDir": str(disk.folder / "not/yet")})
    found = [finding for finding in machine.find(disk_check) if finding.rule == "disk.full"]
    assert {finding.subjects[0].partition("=")[0] for finding in found} >= {"disk.engine", "disk.store"}
    assert "docker image prune" in next(f.remedy for f in found if f.subjects[0].startswith("disk.engine"))


def df(machine: FakeMachine, kilobytes: str, inodes: str) -> None:
    machine.program("df", f"echo Head; case $* in *-i*) echo '{inodes}' ;; *) echo '{kilobytes}' ;; esac")


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
    assert machine.rules(disk_check) == rules


def test_less_than_a_recipe_needs_is_found_in_the_words_of_check(machine: FakeMachine) -> None:
    df(machine, f"/dev/sda 900000000 1 {20 << 20} 1% /", "")
    machine.target = target({"base": "debian:12", "requires": {"disk": "30GiB"}})
    (found,) = [finding for finding in machine.find(recipe) if finding.severity == "error"]
    assert found.rule == "disk" and found.subjects == ("requires.disk=30.0 GiB", "host.disk_free=20.0 GiB")
    assert "docker image prune" in found.remedy
