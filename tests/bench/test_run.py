"""A benchmark's run as records that hold all that is needed to believe them, and which benchmarks a variant has."""

from __future__ import annotations

import json
import re
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from reprokit.bench.hardware import Hardware
from reprokit.bench.run import Bench, Rounds, benchmarks, without_clocks
from reprokit.errors import UsageError, WorkFailed
from reprokit.recipe.find import Target
from reprokit.recipe.model import Benchmark, Recipe
from reprokit.results.record import BenchOrigin, Checkout
from reprokit.supply.lock.file import lock_path, write
from reprokit.supply.lock.model import Lock, PlainFile

RECIPE = Recipe.model_validate(
    {
        "name": "gnn",
        "paper": {"title": "T", "venue": "V", "year": 2020, "licence": "none"},
        "variants": {name: {"base": "debian:12"} for name in ("cpu", "cuda", "bare")},
        "benchmarks": {
            name: {"command": name, "parse": {"format": "records"}, "variants": variants}
            for name, variants in (("spmm", ["cpu", "cuda"]), ("sddmm", ["cuda"]))
        },
    }
)
ORIGIN = BenchOrigin(input_hash="1f" * 32, image_digest="sha256:2e", commit="ab" * 20, dirty=False)
HARDWARE = Hardware(cpu="EPYC", threads=2, clocks={"cpu_max": 3000})
VALUE = {"pattern": "t=(?P<value>.*)", "metric": "t", "unit": "s"}


@pytest.fixture
def bench(here, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Bench:
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path / "home"))  # it keeps failures
    return Bench(Target(RECIPE, "cpu", Path("gnn.yaml")), here, HARDWARE, ORIGIN, lambda file: None)


def benchmark(command: str, *values: dict, **fields: object) -> Benchmark:
    parse = {"values": list(values)} if values else {"format": "records"}
    return Benchmark.model_validate({"command": command, "parse": parse, **fields})


def printing(**line: object) -> Benchmark:
    """A benchmark that prints one measurement."""
    return benchmark(f"echo '{json.dumps({'metric': 'm', 'unit': 's', 'samples': [1], **line})}'")


@pytest.mark.slow
def test_a_record_holds_what_was_measured_on_what(bench, tmp_path):
    device = {"name": "x", "clocks": {"sm": 300}}
    printed = (
        {"environment": {"torch": "2.13", "threads": 1, "device": device}},
        {"metric": "m", "impl": "ours", "unit": "ms", "samples": [1, 2], "params": {"n": 4}},
        {"correctness": [{"ok": True}]},
    )
    (tmp_path / "out").write_text("\n".join(map(json.dumps, printed)))
    seen: list[tuple[str, str]] = []
    (record,) = bench.measure("forward", benchmark("cat out"), ".", lambda *output: seen.append(output))
    assert seen == [("stdout", (tmp_path / "out").read_text())]
    about = (record.metric, record.unit, record.samples, record.params, record.checked)
    assert about == ("m", "ms", (1.0, 2.0), {"n": 4, "impl": "ours"}, 1)
    assert (record.recipe, record.variant, record.benchmark, record.command) == ("gnn", "cpu", "forward", "cat out")
    assert (record.input_hash, record.image_digest) == ("1f" * 32, "sha256:2e")
    assert (record.commit, record.dirty, record.repeats, record.warm_up) == ("ab" * 20, False, (2,), 0)
    assert record.before.load is not None and record.after.load is not None
    assert (record.cpu, record.gpu, record.driver, record.threads) == ("EPYC", "", "", 1)
    assert record.environment == {"torch": "2.13", "threads": 1, "device": {"name": "x"}}
    assert record.clocks == {"cpu_max": 3000, "sm": 300}
    assert record.time.endswith("Z") and len(record.time) == 20
    assert socket.gethostname() not in record.to_json().split('"') and str(Path.home()) not in record.to_json()
    # How long a run takes is known from the last record on this hardware.
    earlier = [
        replace(record, seconds=9.0, warm_up=1, repeats=(1, 1)),  # 3 s a run
        replace(record, seconds=1.0, cpu="another"),
        replace(record, seconds=1.0, variables={"n": 1}),
    ]
    assert bench.expected_s("forward", benchmark("cat out"), Rounds(4), {}, earlier) == 12.0
    assert bench.expected_s("forward", benchmark("cat out"), Rounds(4), {}, earlier[1:]) == 0.0


NVIDIA_SMI = """#!/bin/sh
case "$*" in
*clocks_event_reasons*) exit 2 ;;
*-lms*) while :; do echo "0, 0x0000000000000040"; touch sampled; sleep 0.05; done ;;
*) echo 1980, 40, 0x0000000000000000 ;;
esac
"""


@pytest.mark.slow
def test_a_gpu_that_slowed_down_only_while_a_run_lasted_is_a_warning(bench, tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "nvidia-smi").write_text(NVIDIA_SMI)
    (tmp_path / "bin" / "nvidia-smi").chmod(0o755)
    spec = benchmark("until [ -e sampled ]; do sleep 0.01; done; rm sampled; echo oops >&2; echo t=3", VALUE)
    bench = replace(bench, hardware=replace(HARDWARE, gpu="H100"))
    (record,) = bench.measure("m", spec, ".", rounds=Rounds(repeat=2))
    (warning,) = [text for text in record.warnings if text.startswith("GPU")]
    match = re.fullmatch("GPU 0 was slowed down in ([0-9]+) of ([0-9]+) samples: heat", warning)
    assert match and match[1] == match[2] and int(match[1]) >= 2
    # Samples are neither output nor an exit code.
    with pytest.raises(WorkFailed, match="printed no measurements") as error:
        bench.measure("m", benchmark("true"), ".")
    assert error.value.explanation[0].startswith("cause: the benchmark ran and printed nothing")
    with pytest.raises(WorkFailed, match="failed with exit code 3"):
        bench.measure("m", benchmark("exit 3"), ".")


@pytest.mark.slow
def test_inputs_are_made_and_data_is_compared_with_the_lock(bench, tmp_path):
    inputs = [{"path": "n", "make": "echo 7 > n"}, {"path": "g", "data": "g.zip"}]
    (tmp_path / "g").write_text("7")
    spec = benchmark("echo t=$(cat n)", VALUE, inputs=inputs)
    bench = replace(bench, target=replace(bench.target, path=tmp_path / "gnn.yaml"))
    (record,) = bench.measure("b", spec, ".")
    assert record.samples == (7.0,) and set(record.files) == {"n", "g"}
    assert "the data g.zip has no SHA-256 in the lock, so its content was not verified" in record.warnings
    locked = PlainFile(name="g.zip", urls=("https://data.test/g.zip",), sha256=record.files["g"], size=1)
    write(lock_path(bench.target.path), Lock(recipe="gnn", data=(locked,)))
    assert not any("g.zip" in text for text in bench.measure("b", spec, ".")[0].warnings)
    (tmp_path / "g").write_text("8")
    with pytest.raises(WorkFailed, match=r"g\.zip in the workspace is not the locked file"):
        bench.measure("b", spec, ".")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "message", "explanation"),
    [
        ("echo '{\"metric\": 1}'; exit 3", "the benchmark failed with exit code 3", ""),
        ("(echo t=1; exit 4) | tee log", "the benchmark failed with exit code 4", ""),  # at the head of a pipe
        ("echo \"ModuleNotFoundError: No module named 'h5py'\" >&2; exit 1", "failed with exit code 1", "h5py"),
        ("sleep 20", "did not end in 1 s", ""),
    ],
)
def test_a_failure_is_named_with_its_cause(bench, command, message, explanation):
    with pytest.raises(WorkFailed, match=message) as error:
        bench.measure("forward", benchmark(command), ".", rounds=Rounds(timeout=1 if "sleep" in command else None))
    assert error.value.where == "gnn:cpu forward"
    assert "reprokit shell gnn:cpu" in error.value.hint or "exit code" not in message
    lines = error.value.explanation
    assert (explanation in lines[0] and lines[1].startswith("remedy: ")) if explanation else lines == ()


@pytest.mark.slow
def test_a_command_that_prints_nothing_has_failed(bench):
    for command, cause in (("true", "cause: the benchmark ran and printed nothing"), ("echo hello", "")):
        with pytest.raises(WorkFailed, match="printed no measurements") as error:
            bench.measure("forward", benchmark(command), ".")
        assert error.value.where == "gnn:cpu forward"
        assert [line.startswith(cause) for line in error.value.explanation[:1]] == [True] * bool(cause)


@pytest.mark.slow
def test_runs_are_repeated_after_those_that_warm_up(bench):
    spec = benchmark("echo x >> runs; echo t=$(wc -l < runs)", VALUE)
    (record,) = bench.measure("b", spec, ".", rounds=Rounds(repeat=3, warm_up=2))
    assert (record.samples, record.repeats, record.warm_up) == ((3.0, 4.0, 5.0), (1, 1, 1), 2)


@pytest.mark.slow
def test_cases_that_a_run_omits_are_in_doubt_and_other_cases_in_each_run_limited(bench, monkeypatch):
    pattern = {**VALUE, "pattern": "n=(?P<n>\\S+) t=(?P<value>.*)"}
    omitted = 'for n in 1 2; do [ $n = 2 ] && [ -e ran ] || echo "n=$n t=3"; done; touch ran'
    one, two = bench.measure("b", benchmark(omitted, pattern), ".", rounds=Rounds(repeat=3))
    assert (one.repeats, two.repeats) == ((1, 1, 1), (1, 0, 0))
    assert two.warnings[0] == "only 1 of 3 runs printed this case" and "runs printed" not in str(one.warnings)
    monkeypatch.setenv("REPROKIT_LIMIT_SAMPLES", "8")
    with pytest.raises(UsageError, match="more than 8 cases of all runs"):
        bench.measure("b", benchmark("echo n=$RANDOM$RANDOM t=3", pattern), ".", rounds=Rounds(repeat=3))


@pytest.mark.slow
def test_a_matrix_gives_variables_and_parameters(bench, tmp_path):
    matrix = {"n": [2, 4], "kind": ["$(touch ran); x", "b"], "fast": [True]}
    pattern = {**VALUE, "pattern": "t=(?P<value>\\S+) (?P<kind>.*)"}
    spec = benchmark('echo "t=$n$n $kind"; test "$fast" = true', pattern, matrix=matrix, repeat=2)
    combinations = spec.combinations()
    assert [(c["n"], c["kind"]) for c in combinations] == [(n, k) for n in (2, 4) for k in matrix["kind"]]
    (record,) = bench.measure("b", spec, ".", combination=combinations[2])
    assert record.params == record.variables == {"n": 4, "kind": "$(touch ran); x", "fast": True}
    assert record.samples == (44.0, 44.0) and not (tmp_path / "ran").exists()
    (record,) = bench.measure("b", spec, ".", rounds=Rounds(repeat=1), combination=combinations[1])
    assert (record.params["kind"], record.samples) == ("b", (22.0,))
    slow = benchmark("sleep $n").model_copy(update={"timeout": 1})
    with pytest.raises(WorkFailed, match="did not end in 1 s") as error:
        bench.measure("b", slow, ".", combination={"n": 20})
    assert error.value.where == "gnn:cpu b n=20"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "warning"),
    [
        *(({"params": {"n": n}}, "n was set to 4, and the program printed 2") for n in ("2", 2)),
        *(({"params": {"n": n}}, "") for n in ("4", 4, 4.0)),
        *(({"samples": [1, n], "unit": unit}, "1 of 2 times is 0 or less: the clock is too coarse, or was set back")
          for n, unit in ((0, "ms"), (-1, "s"))),
        ({"samples": [1, 0], "unit": "share"}, ""),
    ],
)  # fmt: skip
def test_a_variable_that_was_not_taken_and_a_time_of_0_are_doubts(bench, line, warning):
    (record,) = bench.measure("m", printing(**line), ".", combination={"n": 4})
    assert [text for text in record.warnings if "printed" in text or "clock" in text] == ([warning] if warning else [])


@pytest.mark.slow
def test_what_limits_a_time_is_recorded(bench, tmp_path):
    printed = [
        {"metric": "machine.peak", "unit": "GFLOP/s", "samples": [100], "params": {"dtype": "fp32"}},
        {"metric": "machine.bandwidth", "unit": "GB/s", "samples": [10], "params": {"kind": "copy"}},
        {"metric": "x.work", "unit": "GFLOP", "samples": [1], "params": {"dtype": "fp32"}},
        {"metric": "x.traffic", "unit": "MB", "samples": [1], "params": {"dtype": "fp32"}},
        {"metric": "x.time", "unit": "ms", "samples": [12], "params": {"dtype": "fp32"}, "impl": "ours"},
    ]
    (tmp_path / "out").write_text("\n".join(map(json.dumps, printed)))
    assert [r.limited_by for r in bench.measure("b", benchmark("cat out"), ".")] == ["", "", "", "", "compute"]


def test_clocks_are_removed_at_any_depth():
    environment = {"a": {"b": {"clocks": {"sm": 1}, "c": 2}}, "clocks": 3}
    assert without_clocks(environment) == ({"a": {"b": {"c": 2}}, "clocks": 3}, {"sm": 1})


@pytest.mark.slow
def test_runs_in_different_environments_are_in_doubt(bench):
    line = '{"metric": "m", "unit": "s", "samples": [1]}'
    printed = """echo '{"environment": {"torch": "2", "clocks": {"sm": '$n'}, "device": "'$device'"}}'"""
    command = f"n=$(cat n || echo 0); device=%s; echo $((n + 1)) > n; {printed}; echo '{line}'"
    doubt = "different environments were reported: device"
    (same,) = bench.measure("m", benchmark(command % "cuda"), ".", rounds=Rounds(repeat=3))
    assert same.clocks["sm"] == 2 and not any("environments" in text for text in same.warnings)
    (other,) = bench.measure("m", benchmark(command % "cuda$((n == 4))"), ".", rounds=Rounds(repeat=3))
    (both,) = bench.measure("m", benchmark(f"{command % 'cpu'}; {command % 'cuda'}"), ".")
    assert doubt in other.warnings and doubt in both.warnings


@pytest.mark.slow
def test_a_workspace_that_changes_while_a_benchmark_runs_is_a_doubt_from_then_on(bench):
    states: list[Checkout] = []
    bench = replace(bench, checkout=lambda: states.pop(0), origin=replace(ORIGIN, warnings=("its commit is odd",)))

    def is_doubted(*now: Checkout) -> bool:
        states.extend(now)
        (record,) = bench.measure("m", printing(), ".")
        assert "its commit is odd" in record.warnings
        return any("changed while" in text for text in record.warnings)

    old, unknown = Checkout(commit=ORIGIN.commit, dirty=False), Checkout(commit=ORIGIN.commit)
    new = Checkout(commit=ORIGIN.commit, dirty=True, changes="ef" * 20)
    assert not is_doubted(old, old) and not is_doubted(new, new) and not is_doubted(old, unknown)
    assert is_doubted(old, new) and is_doubted(new, new)


@pytest.mark.parametrize(
    ("variant", "names", "chosen"),
    [("cuda", [], ["spmm", "sddmm"]), ("cpu", [], ["spmm"]), ("cuda", ["sddmm"], ["sddmm"])],
)
def test_a_variant_has_its_own_benchmarks(variant, names, chosen):
    assert list(benchmarks(Target(RECIPE, variant, Path("gnn.yaml")), names)) == chosen


@pytest.mark.parametrize(
    ("variant", "names", "message", "hint"),
    [
        ("cpu", ["spm"], "no benchmark 'spm'; did you mean spmm?", "spmm, sddmm"),
        ("cpu", ["sddmm"], "not one of the variant 'cpu'", "cuda"),
        ("bare", [], "gnn:bare has no benchmarks", "gnn:cpu has 1; gnn:cuda has 2; `reprokit bench gnn:bare --ext"),
    ],
)
def test_a_missing_benchmark_is_named(variant, names, message, hint):
    with pytest.raises(UsageError, match=message) as error:
        benchmarks(Target(RECIPE, variant, Path("gnn.yaml")), names)
    assert hint in error.value.hint
