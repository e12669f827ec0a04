"""A benchmark's run as records that say all that is needed to believe them."""

from __future__ import annotations

import json
import re
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from reprokit.bench.checkout import Checkout
from reprokit.bench.hardware import Hardware
from reprokit.bench.run import Bench, BenchOrigin, Rounds, without_clocks
from reprokit.errors import UsageError, WorkFailed
from reprokit.recipe.find import Target
from reprokit.recipe.model import Benchmark, Recipe
from reprokit.supply.lock.file import lock_path, write
from reprokit.supply.lock.model import Lock, PlainFile

pytestmark = pytest.mark.slow

RECIPE = Recipe.model_validate(
    {
        "name": "gnn",
        "paper": {"title": "T", "venue": "V", "year": 2020, "licence": "none"},
        "variants": {"cpu": {"base": "debian:12"}},
    }
)
ORIGIN = BenchOrigin("1f" * 32, "sha256:2e", commit="ab" * 20, dirty=False)
HARDWARE = Hardware(cpu="EPYC", threads=2, clocks={"cpu_max": 3000})


@pytest.fixture(autouse=True)
def _home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Failures are kept below it."""
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path / "home"))


@pytest.fixture
def bench(here) -> Bench:
    return Bench(Target(RECIPE, "cpu", Path("gnn.yaml")), here, HARDWARE, ORIGIN, lambda file: None)


def benchmark(command: str, **parse: object) -> Benchmark:
    spec = parse or {"format": "records"}
    return Benchmark.model_validate({"command": command, "parse": spec})


def test_a_record_holds_what_was_measured_on_what(bench, tmp_path):
    (tmp_path / "out").write_text(
        "\n".join(
            json.dumps(line)
            for line in (
                {
                    "environment": {
                        "torch": "2.13",
                        "threads": 1,
                        "device": {"name": "x", "clocks": {"sm": 300}},
                    }
                },
                {"metric": "m", "impl": "ours", "unit": "ms", "samples": [1, 2], "params": {"n": 4}},
            )
        )
    )
    (record,) = bench.measure("forward", benchmark("cat out"), ".")
    assert (record.metric, record.unit, record.samples, record.params) == (
        "m",
        "ms",
        (1.0, 2.0),
        {"n": 4, "impl": "ours"},
    )
    assert (record.recipe, record.variant, record.benchmark, record.command) == (
        "gnn",
        "cpu",
        "forward",
        "cat out",
    )
    assert (record.input_hash, record.image_digest) == ("1f" * 32, "sha256:2e")
    assert (record.commit, record.dirty, record.repeats, record.warm_up) == ("ab" * 20, False, (2,), 0)
    assert record.before.load is not None and record.after.load is not None
    assert (record.cpu, record.gpu, record.driver, record.threads) == ("EPYC", "", "", 1)
    assert record.environment == {"torch": "2.13", "threads": 1, "device": {"name": "x"}}
    assert record.clocks == {"cpu_max": 3000, "sm": 300}
    assert record.time.endswith("Z") and len(record.time) == 20
    assert socket.gethostname() not in record.to_json().split('"') and str(Path.home()) not in record.to_json()


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
    values = [{"pattern": "(?P<value>\\d) ms", "metric": "m", "unit": "ms"}]
    command = "until [ -e sampled ]; do sleep 0.01; done; rm sampled; echo oops >&2; echo 3 ms"
    bench = replace(bench, hardware=replace(HARDWARE, gpu="H100"))
    (record,) = bench.measure("m", benchmark(command, values=values), ".", rounds=Rounds(repeat=2))
    (warning,) = [text for text in record.warnings if text.startswith("GPU")]
    found = re.fullmatch("GPU 0 was slowed down in ([0-9]+) of ([0-9]+) samples: heat", warning)
    assert found and found[1] == found[2] and int(found[1]) >= 2
    with pytest.raises(WorkFailed, match="printed no measurements") as error:
        bench.measure("m", benchmark("true"), ".")
    assert error.value.explanation[0].startswith("cause: the benchmark ran and printed nothing")
    with pytest.raises(WorkFailed, match="failed with exit code 3"):
        bench.measure("m", benchmark("exit 3"), ".")


def test_inputs_are_made_and_named(bench, tmp_path):
    spec = {
        "command": "echo t=$(cat n)",
        "inputs": [{"path": "n", "make": "echo 7 > n"}],
        "parse": {"values": [{"pattern": "t=(?P<value>.*)", "metric": "t", "unit": "s"}]},
    }
    (record,) = bench.measure("b", Benchmark.model_validate(spec), ".")
    assert record.samples == (7.0,)
    assert set(record.files) == {"n"}


@pytest.mark.slow
def test_data_is_compared_with_the_lock_and_unlocked_data_is_a_doubt(bench, tmp_path):
    (tmp_path / "g").write_text("7")
    spec = benchmark("echo t=$(cat g)", values=[{"pattern": "t=(?P<value>.*)", "metric": "t", "unit": "s"}])
    spec = Benchmark.model_validate({**spec.model_dump(), "inputs": [{"path": "g", "data": "g.zip"}]})
    bench = replace(bench, target=replace(bench.target, path=tmp_path / "gnn.yaml"))
    (record,) = bench.measure("b", spec, ".")
    assert "the data g.zip has no SHA-256 in the lock, so its content was not verified" in record.warnings
    locked = PlainFile(name="g.zip", urls=("https://data.test/g.zip",), sha256=record.files["g"], size=1)
    write(lock_path(bench.target.path), Lock(recipe="gnn", data=(locked,)))
    assert not any("g.zip" in text for text in bench.measure("b", spec, ".")[0].warnings)
    (tmp_path / "g").write_text("8")
    with pytest.raises(WorkFailed, match=r"g\.zip in the workspace is not the locked file"):
        bench.measure("b", spec, ".")


def test_a_failing_command_is_named_with_its_exit_code(bench):
    with pytest.raises(WorkFailed, match="failed with exit code 3") as error:
        bench.measure("forward", benchmark("echo '{\"metric\": 1}'; exit 3"), ".")
    assert error.value.where == "gnn:cpu forward"
    assert "reprokit shell gnn:cpu" in error.value.hint
    assert error.value.explanation == ()


def test_a_failure_at_the_head_of_a_pipe_is_one(bench):
    values = [{"pattern": "t=(?P<value>.*)", "metric": "t", "unit": "s"}]
    with pytest.raises(WorkFailed, match="failed with exit code 4"):
        bench.measure("forward", benchmark("(echo t=1; exit 4) | tee log", values=values), ".")


def test_a_failure_ends_with_its_cause(bench):
    with pytest.raises(WorkFailed, match="failed with exit code 1") as error:
        bench.measure("forward", benchmark("echo \"ModuleNotFoundError: No module named 'h5py'\" >&2; exit 1"), ".")
    assert "h5py" in error.value.explanation[0] and error.value.explanation[1].startswith("remedy: ")


def test_a_command_that_prints_nothing_has_failed(bench):
    with pytest.raises(WorkFailed, match="printed no measurements") as error:
        bench.measure("forward", benchmark("true"), ".")
    assert error.value.where == "gnn:cpu forward"
    assert error.value.explanation[0].startswith("cause: the benchmark ran and printed nothing")
    with pytest.raises(WorkFailed, match="printed no measurements") as error:
        bench.measure("forward", benchmark("echo hello"), ".")
    assert error.value.explanation == ()


def test_the_output_is_passed_on_as_it_comes(bench):
    seen: list[tuple[str, str]] = []
    line = '{"metric": "m", "unit": "s", "samples": [1]}'
    bench.measure("forward", benchmark(f"echo '{line}'"), ".", lambda stream, text: seen.append((stream, text)))
    assert seen == [("stdout", line + "\n")]


def test_runs_are_repeated_after_those_that_warm_up(bench, tmp_path):
    command = "echo x >> runs; echo t=$(wc -l < runs)"
    spec = benchmark(command, values=[{"pattern": "t=(?P<value>.*)", "metric": "t", "unit": "s"}])
    (record,) = bench.measure("b", spec, ".", rounds=Rounds(repeat=3, warm_up=2))
    assert (record.samples, record.repeats, record.warm_up) == ((3.0, 4.0, 5.0), (1, 1, 1), 2)


def test_a_case_that_a_run_omits_is_in_doubt(bench, tmp_path):
    command = 'for n in 1 2; do [ $n = 2 ] && [ -e ran ] || echo "n=$n t=3"; done; touch ran'
    spec = benchmark(command, values=[{"pattern": "n=(?P<n>\\S+) t=(?P<value>.*)", "metric": "t", "unit": "s"}])
    one, two = bench.measure("b", spec, ".", rounds=Rounds(repeat=3))
    assert (one.repeats, two.repeats) == ((1, 1, 1), (1, 0, 0))
    assert two.warnings[0] == "only 1 of 3 runs printed this case" and "runs printed" not in str(one.warnings)


def test_other_cases_in_each_run_are_limited(bench, monkeypatch):
    monkeypatch.setenv("REPROKIT_LIMIT_SAMPLES", "8")
    pattern = {"pattern": "n=(?P<n>.*) t=(?P<value>.*)", "metric": "t", "unit": "s"}
    spec = benchmark("echo n=$RANDOM$RANDOM t=3", values=[pattern])
    with pytest.raises(UsageError, match="more than 8 cases of all runs"):
        bench.measure("b", spec, ".", rounds=Rounds(repeat=3))


def test_a_run_that_takes_too_long_has_failed(bench):
    with pytest.raises(WorkFailed, match="did not end in 1 s") as error:
        bench.measure("b", benchmark("sleep 20"), ".", rounds=Rounds(timeout=1))
    assert error.value.where == "gnn:cpu b"


@pytest.mark.slow
def test_a_matrix_gives_variables_and_parameters(bench, tmp_path):
    values = [{"pattern": "t=(?P<value>\\S+) (?P<kind>.*)", "metric": "t", "unit": "s"}]
    matrix = {"n": [2, 4], "kind": ["$(touch ran); x", "b"], "fast": [True]}
    plain = benchmark('echo "t=$n$n $kind"; test "$fast" = true', values=values)
    spec = Benchmark.model_validate({**plain.model_dump(), "matrix": matrix, "repeat": 2})
    combinations = spec.combinations()
    assert [(c["n"], c["kind"]) for c in combinations] == [(n, k) for n in (2, 4) for k in matrix["kind"]]
    (record,) = bench.measure("b", spec, ".", combination=combinations[2])
    assert record.params == record.variables == {"n": 4, "kind": "$(touch ran); x", "fast": True}
    assert record.samples == (44.0, 44.0)
    assert not (tmp_path / "ran").exists()
    (record,) = bench.measure("b", spec, ".", rounds=Rounds(repeat=1), combination=combinations[1])
    assert (record.params["kind"], record.samples) == ("b", (22.0,))
    slow = benchmark("sleep $n").model_copy(update={"timeout": 1})
    with pytest.raises(WorkFailed, match="did not end in 1 s") as error:
        bench.measure("b", slow, ".", combination={"n": 20})
    assert error.value.where == "gnn:cpu b n=20"


@pytest.mark.parametrize(
    ("printed", "doubted"), [('"2"', True), ("2", True), ('"4"', False), ("4", False), ("4.0", False)]
)
def test_a_variable_that_the_program_did_not_take_is_a_doubt(bench, printed, doubted):
    line = f'{{"metric": "m", "unit": "s", "samples": [1], "params": {{"n": {printed}}}}}'
    (record,) = bench.measure("m", benchmark(f"echo '{line}'"), ".", combination={"n": 4})
    assert ("n was set to 4, and the program printed 2" in record.warnings) == doubted


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


def test_clocks_are_found_at_any_depth():
    assert without_clocks({"a": {"b": {"clocks": {"sm": 1}, "c": 2}}, "clocks": 3}) == (
        {"a": {"b": {"c": 2}}, "clocks": 3},
        {"sm": 1},
    )


def test_runs_in_different_environments_are_in_doubt(bench):
    line = '{"metric": "m", "unit": "s", "samples": [1]}'
    printed = """echo '{"environment": {"torch": "2", "clocks": {"sm": '$n'}, "device": "'$device'"}}'"""
    command = f"n=$(cat n || echo 0); device=%s; echo $((n + 1)) > n; {printed}; echo '{line}'"
    (same,) = bench.measure("m", benchmark(command % "cuda"), ".", rounds=Rounds(repeat=3))
    assert same.clocks["sm"] == 2 and not any("environments" in text for text in same.warnings)
    (other,) = bench.measure("m", benchmark(command % "cuda$((n == 4))"), ".", rounds=Rounds(repeat=3))
    assert "different environments were reported: device" in other.warnings
    (both,) = bench.measure("m", benchmark(f"{command % 'cpu'}; {command % 'cuda'}"), ".")
    assert "different environments were reported: device" in both.warnings


def test_a_workspace_that_changes_while_a_benchmark_runs_is_a_doubt_from_then_on(bench):
    states: list[Checkout] = []
    bench = replace(bench, checkout=lambda: states.pop(0))

    def is_doubted(*now: Checkout) -> bool:
        states.extend(now)
        (record,) = bench.measure("m", benchmark('echo \'{"metric": "m", "unit": "s", "samples": [1]}\''), ".")
        return any("changed while" in text for text in record.warnings)

    old, new, unknown = (
        Checkout(ORIGIN.commit, False),
        Checkout(ORIGIN.commit, True, "ef" * 20),
        Checkout(ORIGIN.commit),
    )
    assert not is_doubted(old, old) and not is_doubted(new, new) and not is_doubted(old, unknown)
    assert is_doubted(old, new) and is_doubted(new, new)


def test_a_doubt_about_the_checkout_is_in_the_records(bench):
    bench = replace(bench, origin=BenchOrigin(warnings=("the commit is unknown",)))
    (record,) = bench.measure("m", benchmark('echo \'{"metric": "m", "unit": "s", "samples": [1]}\''), ".")
    assert "the commit is unknown" in record.warnings


@pytest.mark.parametrize(("unit", "sample", "doubted"), [("ms", 0, True), ("s", -1, True), ("share", 0, False)])
def test_a_time_of_0_or_less_is_a_doubt(bench, unit, sample, doubted):
    line = json.dumps({"metric": "m", "unit": unit, "samples": [1, sample]})
    (record,) = bench.measure("m", benchmark(f"echo '{line}'"), ".")
    text = "1 of 2 times is 0 or less: the clock is too coarse, or was set back"
    assert (text in record.warnings) == doubted


def test_how_long_it_takes_is_known_from_its_last_record_on_this_hardware(bench, tmp_path):
    (tmp_path / "out").write_text('{"metric": "m", "unit": "ms", "samples": [1]}\n{"correctness": [{"ok": true}]}\n')
    (record,) = bench.measure("forward", benchmark("cat out"), ".", rounds=Rounds(2))
    assert record.checked == 1
    earlier = [
        replace(record, seconds=9.0, warm_up=1, repeats=(1, 1)),  # 3 s a run
        replace(record, seconds=1.0, cpu="another"),
        replace(record, seconds=1.0, variables={"n": 1}),
    ]
    assert bench.expected_s("forward", benchmark("cat out"), Rounds(4), {}, earlier) == 12.0
    assert bench.expected_s("forward", benchmark("cat out"), Rounds(4), {}, earlier[1:]) == 0.0
