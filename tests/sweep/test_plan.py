"""The jobs of a sweep, their order, what remains of them, and how long that takes."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from reprokit.errors import UsageError
from reprokit.sweep.file import SweepFile, SweepRun
from reprokit.sweep.plan import jobs_of, plan
from tests.support.records import RECORD

SWEEP = SweepFile(runs=[SweepRun(recipe="x", parameters={"THREADS": [1, 2, 4]})], repeats=2)


def found(sweep: SweepFile):
    return jobs_of(sweep, "s.yaml")


def test_a_job_for_each_combination_of_matrix_and_parameters(x):
    jobs = found(SWEEP)
    assert len(jobs) == len({job.id for job in jobs}) == 2 * 3 * 2
    assert {job.title for job in jobs} >= {"x:cpu spmm LAYOUT=row THREADS=4", "x:cpu spmm LAYOUT=column THREADS=1"}
    assert {(job.gpu, job.runs, job.lock_hash) for job in jobs} == {("none", 1, "")}
    # Parameters replace those of the matrix.
    fixed = found(SweepFile(runs=[SweepRun(recipe="x", parameters={"LAYOUT": ["row"]})]))
    assert [job.params for job in fixed] == [{"LAYOUT": "row"}]


def test_variants_and_benchmarks_are_chosen(x):
    jobs = found(SweepFile(runs=[SweepRun(recipe="x", variants=["cuda"], benchmarks=["kernel"])]))
    assert [(job.label, job.gpu, job.runs) for job in jobs] == [("x:cuda", "required", 5)]
    for run in (
        SweepRun(recipe="x", variants=["cpu"], benchmarks=["kernel"]),
        SweepRun(recipe="x", variants=["rocm"]),
        SweepRun(recipe="y"),
    ):
        with pytest.raises(UsageError):
            found(SweepFile(runs=[run]))


def test_the_order_is_shuffled_and_the_seeds_own(x):
    titles = [job.title for job in found(SWEEP)]
    assert titles == [job.title for job in found(SWEEP)] != sorted(titles)
    other = found(SWEEP.model_copy(update={"seed": 1}))
    assert [job.title for job in other] != titles and not {j.id for j in other} & {j.id for j in found(SWEEP)}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("echo", "printf"), ('"debian:12"', '"debian:12", env: {OMP_NUM_THREADS: "1"}'), ('"debian:12"', '"debian:11"'),
        ("matrix:", "inputs: [{path: g, make: touch g}]\n    matrix:"), ("unit: ms", "unit: s"),
        ("matrix:", "repeat: 7\n    matrix:"), ('"debian:12"', '"debian:12", shm: 64MiB'),
        ('"debian:12"', '"debian:12", mounts: [{source: data, target: /data}]'),
        ('"debian:12"', '"debian:12", services: {db: {image: "redis:7", ports: [6379]}}'),
    ],
)  # fmt: skip
def test_what_depends_on_the_recipe_is_another_job(x, old, new):
    before = {job.id for job in found(SWEEP)}
    file = x / "recipes" / "x.yaml"
    file.write_text(file.read_text().replace(old, new, 1))
    assert not before & {job.id for job in found(SWEEP)}


def test_other_data_or_another_image_of_a_service_is_another_job(x):
    file, lock = x / "recipes" / "x.yaml", x / "recipes" / "x.lock.yaml"
    text = file.read_text().replace('"debian:12"', '"debian:12", services: {db: {image: "redis:7", ports: [6379]}}', 1)
    text = text.replace("matrix:", "inputs: [{path: g, data: g.bin}]\n    matrix:", 1)
    file.write_text(text + "data: [{name: g.bin, urls: [https://example.org/g.bin]}]\n")
    base = {"reference": "debian:12", "digest": f"sha256:{1:064x}"}
    variant = {"reprokit": "1", "inputs": {}, "python": "3.11", "glibc": "2.36", "machine": "x86_64", "base": base}

    def ids(data: int, service: int) -> set[str]:
        locked = {"reference": "redis:7", "digest": f"sha256:{service:064x}"}
        files = [{"name": "g.bin", "urls": ["https://example.org/g.bin"], "sha256": f"{data:064x}", "size": 1}]
        cpu = {**variant, "services": {"db": locked}}
        lock.write_text(json.dumps({"version": 1, "recipe": "x", "variants": {"cpu": cpu}, "data": files}))
        return {job.id for job in found(SWEEP)}

    assert ids(1, 1) == ids(1, 1)
    assert not ids(1, 1) & ids(2, 1) and not ids(1, 1) & ids(1, 2)


def test_another_value_of_a_matrix_leaves_the_other_jobs(x):
    before = {job.id for job in found(SWEEP)}
    file = x / "recipes" / "x.yaml"
    file.write_text(file.read_text().replace("[row, column]", "[row, column, diagonal]"))
    assert before < {job.id for job in found(SWEEP)}


def test_the_same_job_twice_is_refused(x):
    with pytest.raises(UsageError, match="is named twice"):
        found(SweepFile(runs=[SweepRun(recipe="x"), SweepRun(recipe="x", variants=["cpu"])]))


def test_a_variable_that_no_benchmark_has_is_refused(x):
    run = SweepRun(recipe="x", parameters={"THREAD": [1, 2]})
    with pytest.raises(UsageError, match=r"has the variable THREAD; did you mean THREADS\?"):
        found(SweepFile(runs=[run]))


def test_too_many_jobs_of_several_runs_are_refused(x):
    run = {"recipe": "x", "benchmarks": ["spmm"]}
    runs = [SweepRun(**run, parameters={"OTHER_A": list(range(400)), "OTHER_B": [number]}) for number in range(20)]
    with pytest.raises(UsageError, match="10001 jobs are more than a sweep may have"):
        found(SweepFile(runs=runs, repeats=1))


def test_what_has_a_record_is_done_and_tells_the_time(x):
    jobs = found(SWEEP)
    own = replace(RECORD, recipe="x", variant="cpu", benchmark="spmm", repeats=(1,), job=jobs[0].id, seconds=4.0)
    rest = plan(jobs, [own, replace(own, warm_up=1), replace(own, recipe="other", seconds=1000.0)])
    assert (len(rest.jobs), rest.done, rest.unknown) == (11, 1, 0)
    assert rest.seconds == 11 * 3.0  # the median of 4 s a run and 2 s a run
    nothing = plan(jobs, [])
    assert (len(nothing.jobs), nothing.seconds, nothing.unknown) == (12, None, 12)
