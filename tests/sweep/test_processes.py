"""The call of `reprokit bench`, its end, and measuring without an engine, behind a prefix that starts a container."""

from __future__ import annotations

import json
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from reprokit.bench.parameters import parameter
from reprokit.container.execute import Completed
from reprokit.errors import WorkFailed
from reprokit.supply.lock.file import lock_path, write
from reprokit.supply.lock.model import Base, Lock, VariantLock
from reprokit.sweep import inside
from reprokit.sweep.bench_process import BenchProcesses, ProcessResult, bench_command, result_of
from reprokit.sweep.file import SweepFile, SweepRun
from reprokit.sweep.plan import jobs_of
from reprokit.sweep.run import records_of
from tests.support.sweeps import JOB, answer

VALUES = [
    1, "1", True, 0.5, "a: 'b' \"c\" $(x)", "true", "é\\n", "", "~", 1e-07, -1e22, 1.5e300, "1e-07",
    "\U0001f600 \U0010ffff \u2028 \\ud83d\\ude00",
]  # fmt: skip


def test_the_call_keeps_the_types_of_parameters_and_names_the_file_of_the_recipe(tmp_path):
    job = replace(JOB, params={f"P{n}": value for n, value in enumerate(VALUES)}, timeout=5, warm_up=2)
    words = bench_command(job, "/r", "gpu1", "GPU-1")
    params = [parameter(word.removeprefix("--param=")) for word in words if word.startswith("--param=")]
    assert [(name, value, type(value)) for name, value in params] == [
        (name, value, type(value)) for name, value in job.params.items()
    ]
    assert words[4:8] == ["reprokit", "bench", "x:cpu", "forward"]
    assert {"--json", "--records=/r", "--timeout=5", "--warm-up=2", "--on=gpu1", "--gpus=device=GPU-1"} <= {*words}
    (tmp_path / "x.yaml").touch()
    assert f"{tmp_path}/x.yaml:cpu" in bench_command(replace(JOB, path=f"{tmp_path}/x.yaml"), "/r")


@pytest.mark.parametrize(("code", "lost"), [(1, False), (2, False), (3, True), (4, True), (-9, True)])
def test_an_exit_code_shows_whether_the_place_failed(code, lost):
    result = result_of(code, "out", "progress\nerror: it broke\nhint: fix it\n")
    assert result == result_of(code, "", "it broke") and (result.error, result.lost) == ("it broke", lost)


def test_an_error_is_cut_and_a_silent_end_is_named():
    assert len(result_of(1, "", "error: " + "x" * 10_000).error) == 500
    assert result_of(9, "", "").error == "it ended with exit code 9"
    assert (result_of(0, "out", "warning").output, result_of(0, "out", "warning").error) == ("out", "")


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


@pytest.mark.slow
def test_floods_and_commands_that_take_too_long_are_ended(monkeypatch):
    monkeypatch.setattr("reprokit.sweep.bench_process.MOST_OUTPUT", 1 << 16)
    flood = BenchProcesses().run_command(["sh", "-c", "yes"])
    assert "it printed more than" in flood.error and not flood.lost
    monkeypatch.setenv("REPROKIT_LIMIT_COMMAND_OUTPUT", str(1 << 16))
    with pytest.raises(WorkFailed, match="wrote more than") as error:
        inside.execute([], ["yes"])
    assert error.value.hint.endswith("raise the limit: REPROKIT_LIMIT_COMMAND_OUTPUT=131072")
    done = inside.execute([], ["sh", "-c", "sleep 9000 | sleep 9000"], timeout=0.5)  # waits for the pipe's end
    assert done.timed_out and done.exit_code == 124


RECIPE = """\
name: x
paper: {title: T, venue: V, year: 2024, licence: none}
variants:
  cpu: {base: "debian:12", workdir: /tmp}
benchmarks:
  spmm:
    inputs: [%s]
    command: '%s'
    matrix: {N: ["0"]}
    parse: {values: [{pattern: 'took (?P<value>\\S+) ms', metric: spmm, unit: ms}]}
data: [{name: g, urls: ["https://example.org/g"]}]
"""


@pytest.fixture
def measured(recipes):
    def measure(command: str, inputs: str = "", image: str = "") -> tuple[object, ProcessResult]:
        (recipes / "x.yaml").write_text(RECIPE % (inputs, command))
        sweep = SweepFile(runs=[SweepRun(recipe="x", parameters={"N": ["1"]})], timeout=5)
        (job,) = jobs_of(sweep, "s", lambda _: image)
        return job, inside.in_image(job, ["env", "INSIDE=yes"])

    return measure


@pytest.mark.slow
def test_a_job_is_measured_with_its_parameters_in_the_work_folder(measured, recipes):
    # No lock is stamped on an image that states none.
    locked = VariantLock(
        reprokit="0", inputs={}, python="3.11", glibc="2.36", machine="x86_64",
        base=Base(reference="debian:12", digest=f"sha256:{'0' * 64}"),
    )  # fmt: skip
    write(lock_path(recipes / "x.yaml"), Lock(recipe="x", variants={"cpu": locked}))
    job, result = measured('echo "took $N.5 ms in $PWD $INSIDE"; [ "$PWD $INSIDE" = "/tmp yes" ]', image="sha256:00")
    (record,) = records_of(answer(job, result.output))
    assert (record.samples, record.params, record.image_digest) == ((1.5,), {"N": "1"}, "sha256:00")
    assert record.image_state == "unverified" and record.cpu and record.seconds is not None and record.job == job.id
    assert record.lock_hash == ""


@pytest.mark.slow
def test_a_failure_has_its_reason(measured, monkeypatch):
    data = "{path: no/such, data: g}"
    assert measured("echo took 1 ms", data)[1] == ProcessResult("", "the data g is not in the workspace", False)
    job, result = measured("exit 3")
    assert result == ProcessResult("", "the benchmark failed with exit code 3", False)
    assert "unknown recipe 'y'" in inside.in_image(replace(job, recipe="y", path="/none.yaml")).error
    # A container runtime that fails is no failure of the benchmark.
    runtime = ["sh", "-c", "echo pyxis: importing; echo 'pyxis: no such image' >&2; exit 1"]
    result = inside.in_image(job, runtime)
    assert result.error == "the container runtime failed with exit code 1: pyxis: importing; pyxis: no such image"
    assert result.lost and result.log == "pyxis: importing\n\npyxis: no such image\n"
    monkeypatch.setattr(inside, "execute", lambda prefix, argv, **_: Completed(1))
    assert inside.in_image(job).error == "the container runtime failed with exit code 1"


@pytest.mark.slow
def test_a_task_writes_its_answer_in_one_step(measured, tmp_path, monkeypatch):
    job, _ = measured("echo took 2 ms", image="sha256:11")
    (tmp_path / "answers").mkdir()
    (tmp_path / "image.sbatch").write_text('[ "$REPROKIT_IMAGE" = x.sif ] && exec "$@"')
    (tmp_path / "jobs.json").write_text(json.dumps({"jobs": [job.to_json()], "image": "x.sif"}))
    monkeypatch.setenv("SLURMD_NODENAME", "n1")
    inside.main(str(tmp_path), "0")
    (file,) = (tmp_path / "answers").iterdir()
    data = json.loads(file.read_text())
    (record,) = records_of(answer(job, data["output"]))
    assert (file.name, data["node"], data["error"], record.image_digest) == ("0.json", "n1", "", "sha256:11")
