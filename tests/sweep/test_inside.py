"""Measuring without an engine, through a prefix that stands for the start of a container."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from reprokit.container.execute import Completed
from reprokit.errors import WorkFailed
from reprokit.supply.lock.file import lock_path, write
from reprokit.supply.lock.model import Base, Lock, VariantLock
from reprokit.sweep import inside
from reprokit.sweep.answer import records_of
from reprokit.sweep.bench_process import ProcessResult
from reprokit.sweep.file import SweepFile, SweepRun
from reprokit.sweep.plan import jobs_of
from tests.support.sweeps import answer

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
def test_a_job_is_measured_with_its_parameters_in_the_work_folder(measured):
    job, found = measured('echo "took $N.5 ms in $PWD $INSIDE"; [ "$PWD $INSIDE" = "/tmp yes" ]', image="sha256:00")
    (record,) = records_of(answer(job, found.output))
    assert (record.samples, record.params, record.image_digest) == ((1.5,), {"N": "1"}, "sha256:00")
    assert record.image_state == "unverified" and record.cpu and record.seconds is not None and record.job == job.id


@pytest.mark.slow
def test_no_lock_is_stamped_on_an_image_that_states_none(measured, recipes):
    locked = VariantLock(
        reprokit="0", inputs={}, python="3.11", glibc="2.36", machine="x86_64",
        base=Base(reference="debian:12", digest=f"sha256:{'0' * 64}"),
    )  # fmt: skip
    write(lock_path(recipes / "x.yaml"), Lock(recipe="x", variants={"cpu": locked}))
    job, found = measured("echo took 1 ms", image="sha256:00")
    (record,) = records_of(answer(job, found.output))
    assert (record.lock_hash, record.image_digest) == ("", "sha256:00")


@pytest.mark.slow
def test_a_failure_has_its_reason(measured):
    assert measured("exit 3")[1] == ProcessResult("", "the benchmark failed with exit code 3", False)
    data = "{path: no/such, data: g}"
    assert measured("echo took 1 ms", data)[1] == ProcessResult("", "the data g is not in the workspace", False)


def test_a_container_runtime_that_fails_is_no_failure_of_the_benchmark(measured, monkeypatch):
    job, _ = measured("true")
    runtime = ["sh", "-c", "echo pyxis: importing; echo 'pyxis: no such image' >&2; exit 1"]
    found = inside.in_image(job, runtime)
    assert found.error == "the container runtime failed with exit code 1: pyxis: importing; pyxis: no such image"
    assert found.lost and found.log == "pyxis: importing\n\npyxis: no such image\n"
    monkeypatch.setattr(inside, "execute", lambda prefix, argv, **_: Completed(1))
    assert inside.in_image(job).error == "the container runtime failed with exit code 1"


@pytest.mark.slow
def test_a_job_of_an_unknown_recipe_is_named(measured):
    job, _ = measured("true")
    assert "unknown recipe 'y'" in inside.in_image(replace(job, recipe="y", path="/none.yaml")).error


@pytest.mark.slow
def test_a_command_that_takes_too_long_ends_with_its_children():
    done = inside.execute([], ["sh", "-c", "sleep 9000 | sleep 9000"], timeout=0.5)  # waits for the pipe's end
    assert done.timed_out and done.exit_code == 124


def test_a_flood_is_ended(monkeypatch):
    monkeypatch.setenv("REPROKIT_LIMIT_COMMAND_OUTPUT", str(1 << 16))
    with pytest.raises(WorkFailed, match="wrote more than") as error:
        inside.execute([], ["yes"])
    assert error.value.hint.endswith("raise the limit: REPROKIT_LIMIT_COMMAND_OUTPUT=131072")


@pytest.mark.slow
def test_a_task_writes_its_answer_in_one_step(measured, tmp_path, monkeypatch):
    job, _ = measured("echo took 2 ms", image="sha256:11")
    (tmp_path / "answers").mkdir()
    (tmp_path / "image.sbatch").write_text('[ "$REPROKIT_IMAGE" = x.sif ] && exec "$@"')
    content = {"jobs": [job.to_json()], "image": "x.sif"}
    (tmp_path / "jobs.json").write_text(json.dumps(content))
    monkeypatch.setenv("SLURMD_NODENAME", "n1")
    inside.main(str(tmp_path), "0")
    (file,) = (tmp_path / "answers").iterdir()
    data = json.loads(file.read_text())
    (record,) = records_of(answer(job, data["output"]))
    assert (file.name, data["node"], data["error"], record.image_digest) == ("0.json", "n1", "", "sha256:11")
