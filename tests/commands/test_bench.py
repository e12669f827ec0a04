"""`reprokit bench`: what is recorded, what is left out, what is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest

from reprokit.bench.container import machine_lock
from reprokit.bench.measure import BenchOutcome
from reprokit.bench.run import Rounds
from reprokit.container.lifecycle import usual_name
from reprokit.engine import Engine
from reprokit.errors import Absent, EngineError, ReprokitError, UsageError, WorkFailed
from reprokit.recipe.find import target
from reprokit.results import lines
from reprokit.results.lines import read
from reprokit.results.tables import of_run
from reprokit.supply.lock.file import lock_path, write
from reprokit.supply.lock.model import Base, Lock, VariantLock
from reprokit.verify.layers import ImageInEngine, digest
from tests.support.names import unique
from tests.support.records import RECORD

NAME = unique("bench")
RECIPE = (
    f"name: {NAME}"
    + """
paper: {title: A paper, venue: none, year: 2026, licence: none}
variants:
  cpu: {base: "debian:12"}
  cuda: {base: "debian:12", requires: {gpu: required}}
benchmarks:
  spmm:
    variants: [cpu]
    inputs: [{path: data/graph, make: "echo made >> made; printf 7 > data/graph"}]
    command: 'for n in 1 2; do echo "partitions: $n"; echo "5 runs $n.$(cat data/graph) ms"; done'
    parse:
      context: ['partitions: (?P<partitions>\\d+)']
      values: [{pattern: 'runs (?P<value>\\S+) ms', metric: spmm, unit: ms}]
      expect: 2
  kernel:
    gpu: true
    command: nvidia-smi
    parse: {format: records}
  broken:
    variants: [cuda]
    command: echo working; echo no such thing >&2; exit 7
    parse: {format: records}
  fine:
    variants: [cuda]
    command: echo "took 3 ms"
    parse: {values: [{pattern: 'took (?P<value>\\S+) ms', metric: fine, unit: ms}]}
  unlocked:
    variants: [cuda]
    inputs: [{path: g.zip, data: g.zip}]
    command: echo "took 4 ms"
    parse: {values: [{pattern: 'took (?P<value>\\S+) ms', metric: fine, unit: ms}]}
data: [{name: g.zip, urls: ["https://example.org/g.zip"]}]
claims:
  - {metric: spmm, value: 0.8, unit: ms, hardware: Xeon 8124M, where: Table 3}
"""
)


@pytest.fixture
def bench(call, tmp_path):
    """`bench("cpu", "spmm")` in a folder with that recipe."""
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / f"{NAME}.yaml").write_text(RECIPE)
    return lambda variant, *arguments: call("bench", f"{NAME}:{variant}", *arguments)


@pytest.fixture
def docker(tidied) -> Engine:
    return tidied(NAME)


@contextmanager
def busy() -> Iterator[None]:
    """Other programs keep more processors busy than a benchmark passes over."""
    loops = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range((os.cpu_count() or 1) // 8 + 1)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def test_numbers_are_recorded_and_what_needs_a_gpu_is_skipped(call, bench, docker, tmp_path):
    first = call("bench", NAME)
    assert first.exit_code == 0, first.exception
    assert "skipped kernel: it needs a GPU" in first.stderr
    assert "the paper reports 0.8 ms on Xeon 8124M (Table 3)" in first.stdout
    data = json.loads(bench("cpu", "spmm", "--json").stdout)
    assert data["ok"] and data["left_out"] == [] and [r["samples"] for r in data["records"]] == [[1.7], [2.7]]

    records = read(tmp_path / "results" / f"{NAME}.jsonl")
    assert [r.params for r in records] == [{"partitions": 1}, {"partitions": 2}] * 2
    image = docker.image(f"reprokit/{NAME}:cpu")
    assert {r.image_digest for r in records} == {image.id}
    assert {r.input_hash for r in records} == {image.labels["reprokit.inputs"]}
    assert records[0].cpu and set(records[0].files) == {"data/graph"}
    assert str(tmp_path) not in records[0].to_json()

    (workspace,) = (tmp_path / "home" / "workspaces").iterdir()
    assert (workspace / "made").read_text() == "made\n"
    (container,) = docker.containers([f"reprokit.recipe={NAME}"])
    assert container.state == "exited"
    report = call("results", "show", NAME)
    assert "2 runs" in report.stdout and "not averaged" not in report.stdout


def test_an_image_of_other_inputs_is_measured_only_with_stale(call, bench, error, docker, tmp_path):
    cuda = f"{NAME}:cuda"
    assert bench("cuda", "fine").exit_code == 0
    file = tmp_path / "recipes" / f"{NAME}.yaml"
    file.write_text(RECIPE.replace('cuda: {base: "debian:12",', 'cuda: {base: "debian:12", env: {NEW: "1"},'))
    refused = error(WorkFailed, "bench", cuda, "fine")
    assert f"the image of {cuda} is stale: recipe or lock have changed" in refused.message
    assert f"`reprokit build {cuda}` renews it; `reprokit bench --stale ...`" in refused.hint
    # A lock that the image was not built by.
    base = Base(reference="debian:12", digest=f"sha256:{'0' * 64}")
    lock = VariantLock(reprokit="0", inputs={}, python="3.11", glibc="2.36", machine="x86_64", base=base)
    write(lock_path(file), Lock(recipe=NAME, variants={"cuda": lock}))
    canonical = digest(ImageInEngine.of(docker, f"reprokit/{cuda}"))
    forced = bench("cuda", "fine", "--stale")
    assert forced.exit_code == 0 and forced.stderr.count(" is stale: ") == 1
    records = read(tmp_path / "results" / f"{NAME}.jsonl")
    assert [(record.image_stale, record.lock_hash) for record in records] == [(False, ""), (True, "")]
    assert [record.image_canonical for record in records] == ["", canonical]
    assert len({record.input_hash for record in records}) == 1
    assert "built from other inputs" in call("results", "show", NAME).stdout
    # If a file that the recipe names is missing, the state is unknown.
    file.write_text(RECIPE.replace('cuda: {base: "debian:12",', 'cuda: {base: "debian:12", blocks: [gone],'))
    assert f"it is unknown whether the image of {cuda} is stale: " in error(WorkFailed, "bench", cuda, "fine").message
    forced = bench("cuda", "fine", "--stale")
    assert forced.exit_code == 0 and "it is unknown whether" in forced.stderr
    assert read(tmp_path / "results" / f"{NAME}.jsonl")[-1].image_stale is None


def test_a_benchmark_that_fails_or_cannot_run_hides_no_other(call, bench, error, docker, tmp_path):
    nothing = error(EngineError, "bench", f"{NAME}:cuda", "kernel")
    assert f"nothing could run: all 1 benchmarks of {NAME}:cuda need a GPU" in nothing.message
    assert docker.image(f"reprokit/{NAME}:cuda") is None
    failed = bench("cuda", "broken", "kernel")
    assert "  no such thing" in failed.stderr and "  working" in failed.stderr
    assert isinstance(failed.exception, WorkFailed) and failed.exception.where == f"{NAME}:cuda broken"
    assert failed.exception.message == "the benchmark failed with exit code 7"
    assert not (tmp_path / "results").exists()

    (tmp_path / "tokens").write_text("TOKEN=hunter2\n")
    options = ("--repeat", "3", "--warm-up", "1", "--timeout", "60", "--env-file", "tokens")
    with busy():
        done = bench("cuda", "fine", "unlocked", *options)
    assert isinstance(done.exception, UsageError) and "the data g.zip is not locked" in done.exception.message
    assert "warning: fine: other programs kept " in done.stderr
    assert "fine [ms]" in done.stdout and "3..3" in done.stdout
    (record,) = read(tmp_path / "results" / f"{NAME}.jsonl")
    assert (record.samples, record.repeats, record.warm_up) == ((3.0,) * 3, (1, 1, 1), 1)
    assert record.env_file.keys() == {"TOKEN"} and "hunter2" not in record.to_json()
    assert record.machine.memory and record.before.load is not None
    assert record.warnings and all("processors busy" in warning for warning in record.warnings)
    without_torch = error(WorkFailed, "bench", f"{NAME}:cuda", "--extension")
    assert without_torch.message.startswith("the extension needs torch, which this image cannot import")
    assert "give the variant a torch pin and the blocks torch and extension" in without_torch.hint


@pytest.mark.engine
@pytest.mark.network
@pytest.mark.long
@pytest.mark.xdist_group("extension")  # the longest of all begins first
def test_the_extension_is_built_checked_and_timed_in_a_container(debian_12, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # The user's own store and image: what `make demo` has built is not built again.
    reprokit = [sys.executable, "-m", "reprokit"]
    subprocess.run([*reprokit, "build", "--drift", "fused-attention:cpu"], check=True)
    command = [*reprokit, "bench", "fused-attention:cpu", "--extension", "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    records = read(tmp_path / "results" / "fused-attention.jsonl")
    times = [r for r in records if r.metric == "fused_attention.forward"]
    assert {"ours", "sdpa-flash", "naive", "flex"} <= {r.params["impl"] for r in times}
    assert {r.unit for r in times} == {"ms"} and all(s > 0 for r in times for s in r.samples)
    assert {r.environment["torch"] for r in records} == {"2.13.0+cpu"}
    assert all(r.environment["build"].startswith("fused_attention-") for r in records)
    engine = Engine.connect()
    # The lock of `bench`: another suite may be at this test, too.
    with machine_lock(None, engine.host):
        container = f"{usual_name(engine, target('fused-attention:cpu'))}-bench"
        engine.start(container)
        try:
            listing = engine.exec_create(container, ["ls", "/opt/reprokit/extensions"])
            folders = b"".join(data for is_error, data in engine.exec_attach(listing).frames() if not is_error).split()
            assert len(folders) >= 1
        finally:
            engine.stop(container)


@pytest.mark.parametrize(
    ("errors", "code"),
    [
        ([Absent("no data"), WorkFailed("exit code 1")], 1), ([Absent("no data"), UsageError("a wrong path")], 2),
        ([EngineError("no GPU"), WorkFailed("exit code 1"), Absent("no data")], 1),
    ],
)  # fmt: skip
def test_what_failed_counts_more_than_what_could_not_run(errors, code, tmp_path):
    outcome = BenchOutcome(Rounds(), tmp_path / "r.jsonl")
    outcome.failed = {f"b{number}": error for number, error in enumerate(errors)}
    with pytest.raises(ReprokitError) as raised:
        outcome.raise_failure()
    assert raised.value.exit_code == code and not isinstance(raised.value, Absent)
    assert raised.value.message.startswith(f"b0: {errors[0].args[0]}; b1: ")


def test_what_a_full_disk_does_not_take_is_still_shown(monkeypatch, tmp_path, capsys):
    def full(*_: object) -> None:
        raise EngineError("the results cannot be written: No space left on device")

    monkeypatch.setattr(lines, "append", full)
    record = SimpleNamespace(warnings=(), checked=0)
    found = SimpleNamespace(
        target=SimpleNamespace(label="x:cpu"), hardware=SimpleNamespace(has_gpu=False), measure=lambda *_: [record],
        expected_s=lambda *_: 0.0,
    )  # fmt: skip
    outcome = BenchOutcome(Rounds(), tmp_path / "r.jsonl")
    outcome.run(found, "b", SimpleNamespace(gpu=False, command="true"), "")
    assert outcome.records == [record] and not outcome.recorded
    with pytest.raises(EngineError, match="cannot be written"):
        outcome.raise_failure()


def test_a_folder_that_cannot_be_written_is_named_before_anything_is_measured(error, recipe, monkeypatch):
    monkeypatch.setattr("os.access", lambda *_: False)
    recipe("x", "variants: {cpu: {base: 'debian:12'}}\nbenchmarks: {b: {command: 'true', parse: {format: records}}}\n")
    refused = error(EngineError, "bench", "x")
    assert refused.where == "results/x.jsonl" and "read-only" in refused.message


def test_bad_input_and_no_engine(bench, error, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere")
    for arguments, message in (
        (["reprokit-test-benc"], f"unknown recipe 'reprokit-test-benc'; did you mean {NAME}?"),
        ([NAME, "spm"], "has no benchmark 'spm'; did you mean spmm?"),
        ([f"{NAME}:cuda", "spmm"], "'spmm' is not one of the variant 'cuda'"),
    ):
        wrong = error(UsageError, "bench", *arguments)
        assert message in wrong.message and wrong.hint
    assert error(EngineError, "bench", NAME).where == "unix:///nowhere"


def test_a_benchmark_with_a_summary_shows_all_its_tables_only_on_request():
    found = target("fused-attention:cpu")
    records = [
        replace(RECORD, metric=metric, params={"mask": "none", "impl": impl}, benchmark=name)
        for name in ("forward", "other")
        for metric in ("fused_attention.forward", "memory")
        for impl in ("ours", "sdpa")
    ]
    tables, short = of_run(records, found.recipe.benchmarks, found.recipe.claims)
    assert short and [each.columns[-1] for each in tables] == ["of peak", "sdpa/ours", "sdpa/ours"]
    tables, short = of_run(records, {}, found.recipe.claims)
    assert not short and len(tables) == 4
