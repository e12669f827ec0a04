"""Memory of this machine, and how many compilers fit into it."""

from __future__ import annotations

from pathlib import Path

import pytest

from reprokit.host.machine import fitting_jobs
from reprokit.host.memory import memory_bytes


@pytest.mark.parametrize(
    ("limit", "expected"), [(None, 1 << 30), ("1048576", 1 << 20), ("max", 1 << 30)], ids=["none", "lower", "max"]
)
def test_memory_is_what_the_kernel_or_a_lower_cgroup_limit_says(tmp_path: Path, limit: str | None, expected: int):
    (tmp_path / "meminfo").write_text("MemTotal:        1048576 kB\nMemFree:          1024 kB\n")
    if limit:
        (tmp_path / "memory.max").write_text(f"{limit}\n")
    assert memory_bytes(tmp_path / "meminfo", tmp_path / "memory.max") == expected
    assert memory_bytes(tmp_path / "nothing", tmp_path / "nothing") is None


@pytest.mark.parametrize(
    ("available_gib", "peak_gib", "jobs"), [(40, 0, 8), (9, 0, 4), (1, 0, 1), (0, 0, 1), (9, 4.4, 2), (9, 0.1, 4)]
)
def test_as_many_compilers_as_fit_into_free_memory(tmp_path: Path, available_gib: int, peak_gib: float, jobs: int):
    meminfo = tmp_path / "meminfo"
    meminfo.write_text(f"MemTotal: 99999999 kB\nMemAvailable: {available_gib << 20} kB\n")
    assert fitting_jobs(8, int(peak_gib * (1 << 30)), meminfo) == jobs
    assert fitting_jobs(8, meminfo=tmp_path / "nothing") == 8
