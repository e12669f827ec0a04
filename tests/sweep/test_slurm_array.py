"""Slurm job arrays: what sbatch is asked for, what comes back, and a real cluster of one node."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from reprokit.errors import EngineError, UsageError
from reprokit.results import lines
from reprokit.sweep import slurm_array
from reprokit.sweep.file import SweepFile, SweepRun
from reprokit.sweep.plan import jobs_of
from reprokit.sweep.run import run
from reprokit.sweep.slurm_array import SlurmRunner
from tests.support import slurm
from tests.support.paths import ROOT
from tests.support.sweeps import output

SWEEP = SweepFile(runs=[SweepRun(recipe="x", variants=["cpu", "cuda"], parameters={"THREADS": [1, 2]})])


class FakeSlurm:
    """Commands of Slurm; `answer(file, job)` does what a task does."""

    def __init__(self, answer, nodes="n1\nn2\n") -> None:
        self.answer, self.nodes = answer, nodes
        self.calls: list[list[str]] = []

    def __call__(self, words) -> str:
        self.calls.append(list(words))
        if words[0] == "sbatch":
            folder = Path(words[-1]).parent
            for number, job in enumerate(json.loads((folder / "jobs.json").read_text())["jobs"]):
                self.answer(folder / "answers" / f"{number}.json", job)
            return f"{100 + len(self.calls)};cluster\n"
        return {"sinfo": self.nodes}.get(words[0], "")

    @property
    def submitted(self) -> list[list[str]]:
        return [call for call in self.calls if call[0] == "sbatch"]


def write(file: Path, job, **changes) -> None:
    reply = {"node": "n1", "output": output(slurm_array.Job(**job)), "error": "", "lost": False, "log": "", **changes}
    file.write_text(json.dumps(reply))


@pytest.fixture
def planned(x):
    for name in ("x-cpu.sif", "x-cuda.sqsh"):
        (x / name).write_bytes(b"image")
    return jobs_of(SWEEP, "s.yaml", slurm_array.image_digest)


@pytest.fixture
def on_cpu(planned):
    return [job for job in planned if job.variant == "cpu"]


def answers(fake: FakeSlurm, jobs):
    runner = SlurmRunner(0.01, fake)
    runner.submit(jobs)
    return list(runner.results())


def test_an_array_for_each_kind_of_job_names_the_image_and_its_checksum(planned, x):
    scripts, contents = set(), {}

    def keep(file, job):
        scripts.add((file.parents[1] / "array.sbatch").read_text())
        content = json.loads((file.parents[1] / "jobs.json").read_text())
        contents[content["image"]] = {each["image"] for each in content["jobs"]}
        write(file, job)

    fake = FakeSlurm(keep)
    replies = answers(fake, planned)
    assert {each.job.id for each in replies} == {job.id for job in planned} and not any(each.error for each in replies)
    assert all(re.fullmatch("slurm-[0-9a-f]{6}", each.place.name) for each in replies)
    gpu, plain = sorted(fake.submitted, key=lambda call: "--exclusive" in call)
    assert "--gpus=1" in gpu and "--gpus=1" not in plain
    assert {"--array=0-5", "--job-name=x-cuda"} <= {*gpu} and {"--array=0-3", "--job-name=x-cpu"} <= {*plain}
    digests = {f"sha256:{hashlib.sha256(b'image').hexdigest()}"}
    assert contents == {str(x / name): digests for name in ("x-cpu.sif", "x-cuda.sqsh")}
    for script in scripts:
        assert script.startswith("#!/bin/bash\nexec ") and " reprokit.sweep.inside " in script
    assert not list((x / "sweeps").iterdir())  # nothing is left where all went well


@pytest.mark.parametrize(
    ("written", "error"),
    [
        *((text, "is not valid") for text in ("", "[]", "[" * 100_000, '{"node": "n1", "output": 1, "error": ""}')),
        ('{"node": "n1", "output": "", "error": "' + "x" * 10_000 + '", "log": ""}', "x" * 500),
        (None, "left no answer"),
    ],
    ids=range(6),
)
def test_an_answer_that_is_hostile_or_missing_is_a_failure(planned, written, error):
    fake = FakeSlurm(lambda file, job: None if written is None else file.write_text(written))
    (reply,) = answers(fake, planned[:1])
    assert error in reply.error and len(reply.error) <= 500


def test_a_nodes_name_is_no_option_and_a_link_is_not_followed(planned, x):
    for node in ("", "n1,n2 --wrap=x", "-x", "a\nb", "x" * 1000):
        (reply,) = answers(FakeSlurm(lambda file, job, node=node: write(file, job, node=node)), planned[:1])
        # A record without a node would be one of this machine.
        assert reply.place.key == "" and reply.place.name.startswith("slurm-")
    (x / "secret").write_text(json.dumps({"node": "n1", "output": "secret", "error": "", "lost": False, "log": ""}))
    (reply,) = answers(FakeSlurm(lambda file, job: file.symlink_to(x / "secret")), planned[:1])
    assert reply.error and "secret" not in reply.output


def test_another_image_file_makes_other_jobs(planned, x):
    (x / "x-cpu.sif").write_bytes(b"another image")
    again = {job.id: job.variant for job in jobs_of(SWEEP, "s.yaml", slurm_array.image_digest)}
    assert {again[job.id] for job in planned if job.id in again} == {"cuda"}


def test_a_failed_job_goes_to_another_node_if_there_is_one(planned):
    for nodes, excluded in (("n1\nn2\n", ["--exclude=n1"]), ("n1\n", [])):
        fake = FakeSlurm(write, nodes)
        answers(fake, [replace(planned[0], avoid=("n1",))])
        assert [word for word in fake.submitted[0] if word.startswith("--exclude=")] == excluded


def sweep(fake: FakeSlurm, jobs):
    return run(jobs, SlurmRunner(0.01, fake), lambda recipe, records: None, lambda result: None)


@pytest.mark.parametrize("count", [1, 2, 16])
def test_a_runtime_that_always_fails_ends_the_sweep(on_cpu, count):
    jobs = [replace(job, id=f"{job.id}{n}") for n in range(4) for job in on_cpu][:count]
    failing = {"output": "", "error": "the container runtime failed", "lost": True, "log": "pyxis: no such file"}
    result = sweep(FakeSlurm(lambda file, job: write(file, job, **failing)), jobs)
    attempts = [len(job.reasons) for job in result.failed]
    assert not result.recorded and len(attempts) == len(jobs) == count
    assert max(attempts) <= 2 and sum(attempts) <= count + 2
    assert any(job.log == "pyxis: no such file" for job in result.failed)


def test_a_node_whose_runtime_fails_does_not_end_the_sweep(on_cpu):
    seen: list[str] = []

    def once(file, job):
        lost = {"output": "", "error": "no runtime", "lost": True} if job["id"] not in seen[1:] and seen else {}
        seen.append(job["id"])
        write(file, job, **lost)

    result = sweep(FakeSlurm(once), on_cpu)
    assert result.recorded == len(on_cpu) and not result.failed


def test_a_slurm_that_does_not_reply_for_a_while_ends_nothing(planned, reported: list[str]):
    replies, notes, late = iter([EngineError("squeue failed: busy"), ""]), reported, []
    fake = FakeSlurm(lambda file, job: late.append((file, job)))

    def command(words):
        if words[0] != "squeue":
            return fake(words)
        reply = next(replies, "")
        if isinstance(reply, EngineError):
            raise reply
        write(*late[0])
        return reply

    runner = SlurmRunner(0.01, command)
    runner.submit(planned[:1])
    assert [each.error for each in runner.results()] == [""] and notes[-1] == "squeue failed: busy"


def test_cancel_ends_the_arrays_and_one_that_stays_hides_no_other(planned, reported: list[str]):
    fake, notes = FakeSlurm(write), reported

    def broken(words):
        reply = fake(words)
        if words[0] == "scancel":
            raise EngineError("scancel failed: busy")
        return reply

    for command in (fake, broken):
        runner = SlurmRunner(0.01, command)
        runner.submit(planned)
        runner.cancel()
        assert [call[0] for call in fake.calls[-2:]] == ["scancel", "scancel"] and len(fake.submitted) % 2 == 0
    arrays = [call[-1] for call in fake.calls[-2:]]
    assert [note for note in notes if "scancel" in note] == [
        f"the job array {array} still runs: scancel failed: busy" for array in arrays
    ]


def test_without_an_image_or_slurm_the_remedy_is_named(planned, on_cpu, x):
    (x / "x-cpu.sif").unlink()
    with pytest.raises(UsageError, match=r"no x-cpu.sqsh and no x-cpu.sif") as missing:
        answers(FakeSlurm(write), on_cpu)
    assert "reprokit render x:cpu --as apptainer" in missing.value.hint
    with pytest.raises(EngineError, match="no-such-sbatch did not run"):
        slurm_array.command(["no-such-sbatch"])
    with pytest.raises(EngineError, match="false failed"):
        slurm_array.command(["false"])
    with pytest.raises(EngineError, match="returned no job number"):
        SlurmRunner(1, lambda words: "$(x)").submit([job for job in planned if job.variant == "cuda"])


@pytest.mark.network
def test_a_sweep_as_an_array_of_a_real_cluster(x, tmp_path, debian_slurm):
    """A script stands in for Apptainer, which Debian 12 and 13 do not have: it runs the command in the workspace."""
    file = x / "recipes" / "x.yaml"
    file.write_text(file.read_text().replace('debian:12"}\n  cuda', 'debian:12", workdir: /tmp}\n  cuda'))
    (x / "x-cpu.sif").write_bytes(b"image")
    (x / "bin").mkdir()
    (x / "bin" / "apptainer").write_text(slurm.APPTAINER)
    (x / "bin" / "apptainer").chmod(0o755)
    (x / "s.yaml").write_text("runs: [{recipe: x, parameters: {THREADS: [1, 2], LAYOUT: [row]}}]\nrepeats: 2\n")
    settings = {
        "PATH": f"{x / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "REPROKIT_HOME": str(x),
        "REPROKIT_RECIPES": str(x / "recipes"),
    }
    words = [sys.executable, "-m", "reprokit", "sweep", "s.yaml", "--runner", "slurm"]
    code = slurm.run_command(debian_slurm, x, *words, **settings)
    assert code == 0, (x / "sbatch.log").read_text()
    found = lines.read(x / "results" / "x.jsonl")
    assert sorted(record.samples[0] for record in found) == [1.0, 1.0, 2.0, 2.0]
    assert len({record.job for record in found}) == 4 and found[0].image_digest.startswith("sha256:")
    assert {record.node for record in found} == {found[0].node} and found[0].node.startswith("slurm-")
