from __future__ import annotations

from pathlib import Path

from reprokit.host.memory import memory_bytes


def test_memory_is_what_the_kernel_says(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:        1048576 kB\nMemFree:          1024 kB\n", encoding="ascii")
    assert memory_bytes(meminfo, tmp_path / "no limit") == 1 << 30


def test_a_cgroup_limit_counts_where_it_is_lower(tmp_path: Path) -> None:
    meminfo, limit = tmp_path / "meminfo", tmp_path / "memory.max"
    meminfo.write_text("MemTotal:        1048576 kB\n", encoding="ascii")
    limit.write_text("1048576\n", encoding="ascii")
    assert memory_bytes(meminfo, limit) == 1 << 20
    limit.write_text("max\n", encoding="ascii")
    assert memory_bytes(meminfo, limit) == 1 << 30


def test_memory_is_unknown_elsewhere(tmp_path: Path) -> None:
    assert memory_bytes(tmp_path / "nothing", tmp_path / "nothing") is None
