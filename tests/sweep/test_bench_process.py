"""The call of `reprokit bench`, how its end is read, and how it is ended."""

from __future__ import annotations

import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from reprokit.bench.parameters import parameter
from reprokit.sweep.bench_process import BenchProcesses, bench_command, result_of
from tests.support.sweeps import JOB


def test_the_call_keeps_the_types_of_parameters():
    params = {
        "A": 1,
        "B": "1",
        "C": True,
        "D": 0.5,
        "E": "a: 'b' \"c\" $(x)",
        "F": "true",
        "G": "é\\n",
        "H": "",
        "I": "~",
        "J": 1e-07,
        "K": -1e22,
        "L": 1.5e300,
        "M": "1e-07",
        "N": "\U0001f600 \U0010ffff \u2028 \\ud83d\\ude00",
    }
    words = bench_command(replace(JOB, params=params, timeout=5, warm_up=2), "/r", "gpu1", "GPU-1")
    given = [word.removeprefix("--param=") for word in words if word.startswith("--param=")]
    assert [parameter(each) for each in given] == list(params.items())
    assert [type(parameter(each)[1]) for each in given] == [type(value) for value in params.values()]
    assert words[4:8] == ["reprokit", "bench", "x:cpu", "forward"]
    assert {"--json", "--records=/r", "--timeout=5", "--warm-up=2", "--on=gpu1", "--gpus=device=GPU-1"} <= {*words}


def test_the_file_of_the_recipe_is_named_where_it_exists(tmp_path):
    (tmp_path / "x.yaml").touch()
    assert f"{tmp_path}/x.yaml:cpu" in bench_command(replace(JOB, path=f"{tmp_path}/x.yaml"), "/r")


@pytest.mark.parametrize(
    ("code", "lost", "said"),
    [
        (1, False, "it broke"),
        (2, False, "it broke"),
        (3, True, "it broke"),
        (4, True, "it broke"),
        (-9, True, "it broke"),
    ],
)
def test_an_exit_code_says_whether_the_place_failed(code, lost, said):
    assert result_of(code, "out", "progress\nerror: it broke\nhint: mend it\n") == result_of(code, "", "it broke")
    assert (result_of(code, "", "error: it broke").error, result_of(code, "", "x").lost) == (said, lost)


def test_an_error_is_cut_and_a_silent_end_is_named():
    assert len(result_of(1, "", "error: " + "x" * 10_000).error) == 500
    assert result_of(9, "", "").error == "it ended with exit code 9"
    assert (result_of(0, "out", "warning").output, result_of(0, "out", "warning").error) == ("out", "")


def test_a_flood_is_ended(monkeypatch):
    monkeypatch.setattr("reprokit.sweep.bench_process.MOST_OUTPUT", 1 << 16)
    found = BenchProcesses().run_command(["sh", "-c", "yes"])
    assert "it printed more than" in found.error and not found.lost


def test_stop_interrupts_what_runs_and_starts_nothing_more(tmp_path):
    script = (
        "import pathlib, time\n"
        "file = pathlib.Path({!r})\n"
        "try:\n"
        "  file.write_text('on')\n"
        "  while True: time.sleep(0.1)\n"
        "except KeyboardInterrupt: file.write_text('container stopped'); raise SystemExit(130)"
    ).format(str(tmp_path / "state"))
    processes, results = BenchProcesses(), []
    thread = threading.Thread(target=lambda: results.append(processes.run_command([sys.executable, "-c", script])))
    thread.start()
    while not (tmp_path / "state").exists():
        time.sleep(0.02)
    processes.stop()
    thread.join()
    assert (tmp_path / "state").read_text() == "container stopped" and results[0].error
    assert processes.run_command(["true"]).error == "cancelled"


@pytest.mark.slow
def test_few_processes_run_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr("reprokit.sweep.bench_process.AT_ONCE", 1)
    processes, alone = BenchProcesses(), f"mkdir {tmp_path}/on && sleep 0.2 && rmdir {tmp_path}/on"
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(processes.run_command, [["sh", "-c", alone]] * 4))
    assert [result.error for result in results] == [""] * 4
