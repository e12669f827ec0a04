"""Commands given in a stranger's checkout, which has files called as modules of Python: none of them is imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from reprokit.host.command import own_module
from reprokit.sweep import ray_cluster, slurm_array
from reprokit.sweep.bench_process import BenchProcesses, bench_command
from reprokit.sweep.plan_search import SearchJob, by_tune
from tests.support.sweeps import JOB


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, whose modules leave the file `mark`."""
    root = tmp_path / "checkout"
    root.mkdir()
    for name in ("json.py", "yaml.py", "typer.py", "reprokit.py", "sitecustomize.py"):
        (root / name).write_text(f"open({str(tmp_path / 'mark')!r}, 'w')\n")
    monkeypatch.chdir(root)
    return root


def test_a_module_of_ours_imports_nothing_of_the_current_folder(checkout: Path):
    done = subprocess.run([*own_module("reprokit"), "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("reprokit") and not (checkout.parent / "mark").exists()
    subprocess.run([sys.executable, "-m", "reprokit", "--version"], capture_output=True, check=False)  # the control
    assert (checkout.parent / "mark").exists()


@pytest.mark.slow
def test_sweeps_and_searches_start_it_so(checkout: Path, monkeypatch: pytest.MonkeyPatch):
    begin = own_module("reprokit")
    assert bench_command(JOB, "/records")[: len(begin)] == begin
    started: list[list[str]] = []
    monkeypatch.setattr(BenchProcesses, "run_command", lambda self, words: started.append(words))
    by_tune(SearchJob(**{**vars(JOB)}, measurements=("part 1 1 0",)), "")
    assert started[0][: len(begin)] == begin
    script = checkout.parent / "array.sbatch"
    script.write_text(slurm_array.array_script(checkout.parent))
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "0")
    done = subprocess.run(["bash", str(script)], capture_output=True, text=True, check=False)
    assert "jobs.json" in done.stderr and not (checkout.parent / "mark").exists()  # it came as far as its own work


def test_workers_of_ray_do_not_import_from_it(checkout: Path, monkeypatch: pytest.MonkeyPatch):
    """Ray adds the folder in which it is initialised to the path of each worker."""
    seen: list[str] = []
    fake = SimpleNamespace(init=lambda **_: seen.append(str(Path.cwd())), shutdown=lambda: None)
    monkeypatch.setitem(sys.modules, "ray", fake)
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    with ray_cluster.connected():
        assert Path.cwd() == checkout
    assert seen == ["/"]
