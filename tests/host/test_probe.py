from __future__ import annotations

import stat
import time
from pathlib import Path

from reprokit.host import probe


def _command(folder: Path, body: str) -> str:
    path = folder / "nvidia-smi"
    path.write_text(f"#!/bin/sh\n{body}\n", encoding="ascii")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_memory_is_what_the_kernel_says(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:        1048576 kB\nMemFree:          1024 kB\n", encoding="ascii")
    assert probe.memory_bytes(meminfo, tmp_path / "no limit") == 1 << 30


def test_a_cgroup_limit_counts_where_it_is_lower(tmp_path: Path) -> None:
    meminfo, limit = tmp_path / "meminfo", tmp_path / "memory.max"
    meminfo.write_text("MemTotal:        1048576 kB\n", encoding="ascii")
    limit.write_text("1048576\n", encoding="ascii")
    assert probe.memory_bytes(meminfo, limit) == 1 << 20
    limit.write_text("max\n", encoding="ascii")
    assert probe.memory_bytes(meminfo, limit) == 1 << 30


def test_memory_is_unknown_elsewhere(tmp_path: Path) -> None:
    assert probe.memory_bytes(tmp_path / "nothing", tmp_path / "nothing") is None


def test_disk_of_a_folder_that_is_not_made_yet(tmp_path: Path) -> None:
    free = probe.disk_free_bytes(tmp_path / "not" / "yet")
    assert free is not None
    assert free > 0


def test_driver_of_nvidia_smi(tmp_path: Path) -> None:
    command = _command(tmp_path, "echo 535.104.05; echo 535.104.05")
    assert probe.driver_version(command, module=tmp_path / "none") == "535.104.05"


def test_driver_of_the_loaded_module(tmp_path: Path) -> None:
    module = tmp_path / "version"
    module.write_text("550.54.14\n", encoding="ascii")
    assert probe.driver_version("no such command", module=module) == "550.54.14"


def test_no_driver(tmp_path: Path) -> None:
    assert probe.driver_version("no such command", module=tmp_path / "none") is None
    assert probe.driver_version(_command(tmp_path, "exit 9"), module=tmp_path / "none") is None


def test_a_lost_card_does_not_hold_us(tmp_path: Path) -> None:
    started = time.monotonic()
    assert probe.driver_version(_command(tmp_path, "exec sleep 30"), seconds=0.2, module=tmp_path / "none") is None
    assert time.monotonic() - started < 5
