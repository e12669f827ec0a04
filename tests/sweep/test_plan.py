"""The file of a sweep and its refusals; its jobs, their order, the remaining ones and the estimated time."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import pytest

from reprokit.errors import UsageError
from reprokit.sweep.file import SweepFile, SweepRun, load
from reprokit.sweep.plan import jobs_of, plan
from tests.support.records import RECORD


@pytest.fixture
def loaded(tmp_path):
    """`loaded(text)`: a sweep's file, read."""

    def read(text: str) -> SweepFile:
        (tmp_path / "s.yaml").write_text(text)
        return load(tmp_path / "s.yaml")

    return read


def test_all_fields(loaded):
    sweep = loaded(
        "runs:\n  - {recipe: x, variants: [cpu], benchmarks: [spmm], parameters: {THREADS: [1, 2.5, a b, true]}}\n"
        "repeats: 3\nwarm_up: 1\ntimeout: 60\nnodes: [a, user@b]\nseed: 7\n"
    )
    values = sweep.runs[0].parameters["THREADS"]
    assert [(value, type(value)) for value in values] == [(1, int), (2.5, float), ("a b", str), (True, bool)]
    assert (sweep.repeats, sweep.warm_up, sweep.timeout, sweep.nodes, sweep.seed) == (3, 1, 60, ["a", "user@b"], 7)


LARGE = "parameters: {A: [%s], B: [%s]}" % ((", ".join(map(str, range(1000))),) * 2)
FORM = "has a form or characters that are not allowed"
SCALAR = "Input should be a valid string or"


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("runs:\n  - recipe: x\n    " + LARGE, 3, "1000000 jobs are more than a sweep may have, 10000"),
        ("repeats: 1000\nruns:\n- {recipe: x, parameters: {A: [" + "1, " * 99 + "1]}}", 3, "100000 jobs are more"),
        ("runs:\n- {recipe: x}\nrepeats: 1000000", 3, "repeats"),
        ("runs:\n- {recipe: x, parameters: {A: [" + "1, " * 1000 + "1]}}", 2, "runs.0.parameters.A"),
        ("runs: [" + "{recipe: x}, " * 101 + "]", 1, "runs"),
        ("runs:\n- {recipe: ../x}", 2, FORM),
        ("runs:\n- {recipe: /etc/x.yaml}", 2, FORM),
        ('runs:\n- {recipe: "x\\e[2J"}', 2, FORM),
        ("runs:\n- recipe: x\n  variants: [cpu:/../y]", 3, FORM),
        ("runs:\n- recipe: x\n  parameters: {'A; touch x': [1]}", 3, "not allowed"),
        ('runs:\n- recipe: x\n  parameters: {A: ["\\e]0;owned\\a"]}', 3, "parameters"),
        (
            "runs:\n- recipe: x\n  parameters: {A: [.nan]}",
            3,
            f"parameters.A.0: {SCALAR} a valid boolean or a valid integer or a finite number",
        ),
        ("runs:\n- recipe: x\n  parameters: {A: [" + "9" * 25 + "]}", 3, "an integer of more than 24 digits"),
        ("runs:\n- recipe: x\n  parameters: {A: [[1]]}", 3, f"parameters.A.0: {SCALAR}"),
        ("runs:\n- recipe: x\n  parameters: {A: [{b: 1}]}", 3, f"parameters.A.0: {SCALAR}"),
        ("runs:\n- recipe: x\n  parameters: {A: [1, ~]}", 3, f"parameters.A.1: {SCALAR}"),
        ('runs:\n- recipe: x\nnodes:\n- "a\\nb"', 4, "nodes"),
        ("runs:\n- recipe: x\n  benchmark: [spmm]", 3, "unknown field runs.0.benchmark; did you mean benchmarks?"),
        ("runs: &a\n- recipe: x\nnodes: *a", 3, "the alias *a is not allowed"),
        ("repeats: 2", 1, "runs is missing"),
        ("runs:\n- recipe: x\nseed: -1", 3, "seed"),
    ],
    ids=itertools.count(),
)
def test_what_is_refused_has_a_line(loaded, tmp_path, text, line, message):
    with pytest.raises(UsageError) as refused:
        loaded(text)
    assert message in refused.value.message and refused.value.where == f"{tmp_path / 's.yaml'}:{line}"


def test_other_files_are_refused(loaded, tmp_path):
    with pytest.raises(UsageError, match=r"^cannot read the sweep: No such file or directory$"):
        load(tmp_path / "gone.yaml")
    with pytest.raises(UsageError):
        load(tmp_path)
    for text in ("- x", "x" * (2 << 20)):
        with pytest.raises(UsageError):
            loaded(text)


SWEEP = SweepFile(runs=[SweepRun(recipe="x", parameters={"THREADS": [1, 2, 4]})], repeats=2)


def planned(sweep: SweepFile = SWEEP):
    return jobs_of(sweep, "s.yaml")


def planned_run(**run):
    return planned(SweepFile(runs=[SweepRun(**{"recipe": "x", **run})]))


def ids(sweep: SweepFile = SWEEP) -> set[str]:
    return {job.id for job in planned(sweep)}


def test_a_job_for_each_combination_of_matrix_and_parameters(x):
    jobs = planned()
    assert len(jobs) == len({job.id for job in jobs}) == 2 * 3 * 2
    assert {job.title for job in jobs} >= {"x:cpu spmm LAYOUT=row THREADS=4", "x:cpu spmm LAYOUT=column THREADS=1"}
    assert {(job.gpu, job.runs, job.lock_hash) for job in jobs} == {("none", 1, "")}
    # Parameters replace those of the matrix.
    assert [job.params for job in planned_run(parameters={"LAYOUT": ["row"]})] == [{"LAYOUT": "row"}]


def test_variants_and_benchmarks_are_chosen(x):
    jobs = planned_run(variants=["cuda"], benchmarks=["kernel"])
    assert [(job.label, job.gpu, job.runs) for job in jobs] == [("x:cuda", "required", 5)]
    for run in ({"variants": ["cpu"], "benchmarks": ["kernel"]}, {"variants": ["rocm"]}, {"recipe": "y"}):
        with pytest.raises(UsageError):
            planned_run(**run)
    with pytest.raises(UsageError, match=r"has the variable THREAD; did you mean THREADS\?"):
        planned_run(parameters={"THREAD": [1, 2]})
    with pytest.raises(UsageError, match="is named twice"):
        planned(SweepFile(runs=[SweepRun(recipe="x"), SweepRun(recipe="x", variants=["cpu"])]))


def test_the_order_is_shuffled_and_the_seeds_own(x):
    titles = [job.title for job in planned()]
    assert titles == [job.title for job in planned()] != sorted(titles)
    other = SWEEP.model_copy(update={"seed": 1})
    assert [job.title for job in planned(other)] != titles and not ids(other) & ids()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("echo", "printf"), ('"debian:12"', '"debian:12", env: {OMP_NUM_THREADS: "1"}'), ('"debian:12"', '"debian:11"'),
        ("matrix:", "inputs: [{path: g, make: touch g}]\n    matrix:"), ("unit: ms", "unit: s"),
        ("matrix:", "repeat: 7\n    matrix:"), ('"debian:12"', '"debian:12", shm: 64MiB'),
        ('"debian:12"', '"debian:12", mounts: [{source: data, target: /data}]'),
    ],
)  # fmt: skip
def test_what_depends_on_the_recipe_is_another_job(x, old, new):
    before, file = ids(), x / "recipes" / "x.yaml"
    file.write_text(file.read_text().replace(old, new, 1))
    assert not before & ids()


def test_other_data_is_another_job(x):
    file, lock = x / "recipes" / "x.yaml", x / "recipes" / "x.lock.yaml"
    text = file.read_text().replace("matrix:", "inputs: [{path: g, data: g.bin}]\n    matrix:", 1)
    file.write_text(text + "data: [{name: g.bin, urls: [https://example.org/g.bin]}]\n")
    base = {"reference": "debian:12", "digest": f"sha256:{1:064x}"}
    variant = {"reprokit": "1", "inputs": {}, "python": "3.11", "glibc": "2.36", "machine": "x86_64", "base": base}

    def locked(data: int) -> set[str]:
        files = [{"name": "g.bin", "urls": ["https://example.org/g.bin"], "sha256": f"{data:064x}", "size": 1}]
        lock.write_text(json.dumps({"version": 1, "recipe": "x", "variants": {"cpu": variant}, "data": files}))
        return ids()

    assert locked(1) == locked(1) and not locked(1) & locked(2)


def test_another_value_of_a_matrix_leaves_the_other_jobs(x):
    before, file = ids(), x / "recipes" / "x.yaml"
    file.write_text(file.read_text().replace("[row, column]", "[row, column, diagonal]"))
    assert before < ids()


def test_too_many_jobs_of_several_runs_are_refused(x, monkeypatch):
    run = {"recipe": "x", "benchmarks": ["spmm"]}
    runs = [SweepRun(**run, parameters={"OTHER_A": list(range(400)), "OTHER_B": [number]}) for number in range(20)]
    with pytest.raises(UsageError, match="10001 jobs are more than a sweep may have"):
        planned(SweepFile(runs=runs, repeats=1))


def test_what_has_a_record_is_done_and_gives_the_time(x):
    jobs = planned()
    own = replace(RECORD, recipe="x", variant="cpu", benchmark="spmm", repeats=(1,), job=jobs[0].id, seconds=4.0)
    remaining = plan(jobs, [own, replace(own, warm_up=1), replace(own, recipe="other", seconds=1000.0)])
    assert (len(remaining.jobs), remaining.done, remaining.unknown) == (11, 1, 0)
    assert remaining.seconds == 11 * 3.0  # the median of 4 s a run and 2 s a run
    nothing = plan(jobs, [])
    assert (len(nothing.jobs), nothing.seconds, nothing.unknown) == (12, None, 12)
