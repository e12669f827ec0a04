"""A benchmark's run as records that say all that is needed to believe them."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from reprokit.bench.hardware import Hardware
from reprokit.bench.run import Bench, without_clocks
from reprokit.errors import WorkFailed
from reprokit.recipe.find import Target
from reprokit.recipe.model import Benchmark, Recipe

RECIPE = Recipe.model_validate(
    {
        "name": "gnn",
        "paper": {"title": "T", "venue": "V", "year": 2020, "licence": "none"},
        "variants": {"cpu": {"base": "debian:12"}},
    }
)
HARDWARE = Hardware(cpu="EPYC", threads=2, clocks={"cpu_max": 3000})


@pytest.fixture
def bench(here) -> Bench:
    return Bench(Target(RECIPE, "cpu", Path("gnn.yaml")), here, HARDWARE, "1f" * 32, "sha256:2e", lambda file: None)


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
    assert (record.cpu, record.gpu, record.driver, record.threads) == ("EPYC", "", "", 1)
    assert record.environment == {"torch": "2.13", "threads": 1, "device": {"name": "x"}}
    assert record.clocks == {"cpu_max": 3000, "sm": 300}
    assert record.time.endswith("Z") and len(record.time) == 20
    assert socket.gethostname() not in record.to_json().split('"') and str(Path.home()) not in record.to_json()


def test_inputs_are_made_and_named(bench, tmp_path):
    spec = {
        "command": "echo t=$(cat n)",
        "inputs": [{"path": "n", "make": "echo 7 > n"}],
        "parse": {"values": [{"pattern": "t=(?P<value>.*)", "metric": "t", "unit": "s"}]},
    }
    (record,) = bench.measure("b", Benchmark.model_validate(spec), ".")
    assert record.samples == (7.0,)
    assert set(record.files) == {"n"}


def test_a_failing_command_is_named_with_its_exit_code(bench):
    with pytest.raises(WorkFailed, match="failed with exit code 3") as error:
        bench.measure("forward", benchmark("echo '{\"metric\": 1}'; exit 3"), ".")
    assert error.value.where == "gnn:cpu forward"
    assert "reprokit shell gnn:cpu" in error.value.hint


def test_a_command_that_prints_nothing_has_failed(bench):
    with pytest.raises(WorkFailed, match="printed no measurements") as error:
        bench.measure("forward", benchmark("true"), ".")
    assert error.value.where == "gnn:cpu forward"


def test_the_output_is_passed_on_as_it_comes(bench):
    seen: list[tuple[str, str]] = []
    line = '{"metric": "m", "unit": "s", "samples": [1]}'
    bench.measure("forward", benchmark(f"echo '{line}'"), ".", lambda stream, text: seen.append((stream, text)))
    assert seen == [("stdout", line + "\n")]


def test_clocks_are_found_at_any_depth():
    assert without_clocks({"a": {"b": {"clocks": {"sm": 1}, "c": 2}}, "clocks": 3}) == (
        {"a": {"b": {"c": 2}}, "clocks": 3},
        {"sm": 1},
    )
