"""What programs in a container print."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from reprokit.untrusted import limits
from tests.support.bombs import refused

pytestmark = pytest.mark.long

Run = Callable[..., str]
MOST = limits.COMMAND_OUTPUT.default
HEADER = "Time (%),Total Time (ns),Name\n"
LAUNCHES = "ID,Kernel Name,gpu__time_duration.sum\n"
WIDE = "\U0001f600\n"  # each character of the text takes four bytes
PROFILE = """
from reprokit.profiling import output
found = getattr(output, sys.argv[1])(Path("text").read_text())
print(len(found.rows), max(found.totals.values(), default=0))
"""
BENCHMARK = """
from reprokit.bench.parse import parse
from reprokit.recipe.model import Parse
value = {"metric": "m", "unit": "s", "pattern": "t (?P<value>[0-9]+) ?(?P<case>[0-9]*)"}
spec = Parse(format="records") if sys.argv[1] == "records" else Parse(values=[value])
print(len(parse(spec, Path("text").read_text()).measurements))
"""


def filled(line: str, first: str = "") -> str:
    return first + line * ((MOST - len(first) - 4) // len(line))


# Made where they are used: they are large.
TABLES = {
    "rows": ("nsys", lambda: filled("1,1,k\n", HEADER)),
    "wide rows": ("nsys", lambda: filled("1,1,k\n", HEADER + WIDE)),
    "no table": ("nsys", lambda: filled("x\n")),
    "launches": ("ncu", lambda: LAUNCHES + "".join(f"1,k{n},1\n" for n in range(1_000_000))),
    "symbols": ("perf", lambda: filled("x\n")),
}
NO_TABLES = {
    "a line has more than 10000 columns": lambda: filled("a,"),
    "field larger than field limit": lambda: HEADER + "1,1," + "x" * 200_000,
    "its table has no column Total Time": lambda: "Time (%),Time (ns),Name\n1,1,k\n",
}
SAMPLE = '{"metric":"m","unit":"s","samples":[1]}\n'
SAMPLES = {
    "lines": ("lines", lambda: filled("t 1\n")),
    "cases": ("lines", lambda: WIDE + "".join(f"t 1 {n}\n" for n in range(1_300_000))),
    "records": ("records", lambda: filled(SAMPLE)),
    "long records": ("records", lambda: filled('{"metric":"m","unit":"s","samples":[' + "1," * 199_999 + "1]}\n")),
    "environments": ("records", lambda: filled('{"environment":{}}\n', SAMPLE)),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_profilers_table_with_many_rows(run: Run, tmp_path: Path, name: str) -> None:
    tool, text = TABLES[name]
    (tmp_path / "text").write_text(text())
    refused(run(tool, python=PROFILE, code=2), limits.PROFILE_LINES)


def test_of_a_profilers_table_only_the_first_rows_are_kept(run: Run, tmp_path: Path) -> None:
    rows = "".join(f"1,1000000000,k{n}\n" for n in range(limits.PROFILE_LINES.default - 1))
    (tmp_path / "text").write_text(HEADER + rows)
    assert run("nsys", python=PROFILE) == "200 99999.0\n"
    (tmp_path / "text").write_text(filled("1|1|a|b\n"))
    assert run("perf", python=PROFILE) == "200 0\n"


@pytest.mark.parametrize("reason", NO_TABLES)
def test_a_profilers_table_that_is_none(run: Run, tmp_path: Path, reason: str) -> None:
    (tmp_path / "text").write_text(NO_TABLES[reason]())
    said = run("nsys", python=PROFILE, code=4)
    assert f"the output of nsys stats is not valid: {reason}" in said and said.count("error:") == 1


@pytest.mark.parametrize("name", SAMPLES)
def test_a_benchmark_that_prints_many_samples(run: Run, tmp_path: Path, name: str) -> None:
    kind, text = SAMPLES[name]
    (tmp_path / "text").write_text(text())
    refused(run(kind, python=BENCHMARK, code=2), limits.SAMPLES)


@pytest.mark.parametrize("line", ["\n", "{}\n", "\x1b[0m"])
def test_a_benchmark_that_prints_much_else(run: Run, tmp_path: Path, line: str) -> None:
    (tmp_path / "text").write_text(filled(line, WIDE + SAMPLE))
    assert run("records", python=BENCHMARK) == "1\n"


def test_a_large_environment_of_a_benchmark(run: Run, tmp_path: Path) -> None:
    each = [{f"{n}_{key}": 0 for key in range(20_000)} for n in range(60)]
    lines = [json.dumps({"environment": environment}) + "\n" for environment in each]
    (tmp_path / "text").write_text("".join([*lines, SAMPLE]))
    assert "more than 4 MiB about the environment" in run("records", python=BENCHMARK, code=1)
    cases = (SAMPLE.replace("[1]", f'[1],"params":{{"n":{n}}}') for n in range(1000))
    (tmp_path / "text").write_text("".join([lines[0], *cases]))
    refused(run("records", python=BENCHMARK, code=2), limits.DOCUMENT)
    (tmp_path / "text").write_text("".join([lines[0], SAMPLE]))  # the control
    assert run("records", python=BENCHMARK) == "1\n"
