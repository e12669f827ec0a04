from __future__ import annotations

from pathlib import Path

import pytest

from reprokit.host.machine import fitting_jobs


@pytest.mark.parametrize(
    ("available_gib", "peak_gib", "jobs"), [(40, 0, 8), (9, 0, 4), (1, 0, 1), (0, 0, 1), (9, 4.4, 2), (9, 0.1, 4)]
)
def test_as_many_compilers_as_fit_into_free_memory(tmp_path: Path, available_gib: int, peak_gib: float, jobs: int):
    meminfo = tmp_path / "meminfo"
    meminfo.write_text(f"MemTotal: 99999999 kB\nMemAvailable: {available_gib << 20} kB\n", encoding="ascii")
    assert fitting_jobs(8, int(peak_gib * (1 << 30)), meminfo) == jobs


def test_without_a_number_of_free_memory_all_processors_compile(tmp_path: Path):
    assert fitting_jobs(8, meminfo=tmp_path / "nothing") == 8
