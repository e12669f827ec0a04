"""What programs in a container print, and the records and logs that remain of it."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from reprokit.explain.load import bundled
from reprokit.explain.place import LONGEST
from reprokit.untrusted import limits
from tests.support.bombs import refused
from tests.support.records import RECORD

Run = Callable[..., str]
MOST = limits.COMMAND_OUTPUT.default
HEADER = "Time (%),Total Time (ns),Name\n"
LAUNCHES = "ID,Kernel Name,gpu__time_duration.sum\n"
SAMPLE = '{"metric":"m","unit":"s","samples":[1]}\n'
WIDE = "\U0001f600\n"  # each character of the text takes four bytes
PROFILE = """
from reprokit.profiling import output
table = getattr(output, sys.argv[1])(Path("text").read_text())
print(len(table.rows), max(table.totals.values(), default=0))
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
GROWN: dict[str, tuple[str, str, limits.Limit, Callable[[], str]]] = {
    "rows": (PROFILE, "nsys", limits.PROFILE_LINES, lambda: filled("1,1,k\n", HEADER)),
    "wide rows": (PROFILE, "nsys", limits.PROFILE_LINES, lambda: filled("1,1,k\n", HEADER + WIDE)),
    "no table": (PROFILE, "nsys", limits.PROFILE_LINES, lambda: filled("x\n")),
    "launches": (
        PROFILE, "ncu", limits.PROFILE_LINES, lambda: LAUNCHES + "".join(f"1,k{n},1\n" for n in range(1_000_000))
    ),
    "symbols": (PROFILE, "perf", limits.PROFILE_LINES, lambda: filled("x\n")),
    "lines": (BENCHMARK, "lines", limits.SAMPLES, lambda: filled("t 1\n")),
    "cases": (BENCHMARK, "lines", limits.SAMPLES, lambda: WIDE + "".join(f"t 1 {n}\n" for n in range(1_300_000))),
    "records": (BENCHMARK, "records", limits.SAMPLES, lambda: filled(SAMPLE)),
    "long records": (
        BENCHMARK, "records", limits.SAMPLES,
        lambda: filled('{"metric":"m","unit":"s","samples":[' + "1," * 199_999 + "1]}\n")
    ),
    "environments": (BENCHMARK, "records", limits.SAMPLES, lambda: filled('{"environment":{}}\n', SAMPLE)),
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("name", GROWN)
def test_output_that_grows(run: Run, tmp_path: Path, name: str) -> None:
    program, tool, limit, text = GROWN[name]
    (tmp_path / "text").write_text(text())
    refused(run(tool, python=program, code=2), limit)


@pytest.mark.long
def test_of_a_profilers_table_only_the_first_rows_are_kept(run: Run, tmp_path: Path) -> None:
    rows = "".join(f"1,1000000000,k{n}\n" for n in range(limits.PROFILE_LINES.default - 1))
    (tmp_path / "text").write_text(HEADER + rows)
    assert run("nsys", python=PROFILE) == "200 99999.0\n"
    (tmp_path / "text").write_text(filled("1|1|a|b\n"))
    assert run("perf", python=PROFILE) == "200 0\n"
    for reason, text in (
        ("a line has more than 10000 columns", filled("a,")),
        ("field larger than field limit", HEADER + "1,1," + "x" * 200_000),
        ("its table has no column Total Time", "Time (%),Time (ns),Name\n1,1,k\n"),
    ):
        (tmp_path / "text").write_text(text)
        said = run("nsys", python=PROFILE, code=4)
        assert f"the output of nsys stats is not valid: {reason}" in said and said.count("error:") == 1


@pytest.mark.long
@pytest.mark.parametrize("line", ["\n", "{}\n", "\x1b[0m"])
def test_a_benchmark_that_prints_much_else(run: Run, tmp_path: Path, line: str) -> None:
    (tmp_path / "text").write_text(filled(line, WIDE + SAMPLE))
    assert run("records", python=BENCHMARK) == "1\n"


@pytest.mark.long
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


# --- Files of records from a stranger's checkout or job

FILE = "results/fused-attention.jsonl"
VERBS = {
    "show": ("results", "show", "fused-attention"),
    "list": ("results", "list"),
    "export": ("results", "export", "--csv", "--records", FILE),
    "compare": ("results", "compare", FILE, FILE),
    "report": ("report", "fused-attention", "-o", "page"),
}


@pytest.mark.long
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("digits", [400, 5000])
def test_integers_of_many_digits(run: Run, tmp_path: Path, verb: str, digits: int) -> None:
    (tmp_path / "results").mkdir()
    fields = [{"params": {"x": "?"}}, {"repeats": ["?"]}, {"before": {"cpu_clock": "?"}}, {"environment": {"x": "?"}}]
    for field in fields:
        text = json.dumps({**json.loads(RECORD.to_json()), **field}).replace('"?"', "9" * digits)
        (tmp_path / FILE).write_text(f"{RECORD.to_json()}\n{text}\n")
        said = run(*VERBS[verb], code=2)
        assert f"{FILE}:2" in said and said.count("error:") == 1


@pytest.mark.long
def test_records_that_have_nothing_in_common(run: Run, tmp_path: Path) -> None:
    keys = [{f"k{number}_{place}": "x" for place in range(60)} for number in range(400)]
    records = [replace(RECORD, commit=f"{number:040x}", environment=each) for number, each in enumerate(keys)]
    tabs = replace(RECORD, params={"x": "\t" * 100_000})
    (tmp_path / "r.jsonl").write_text("".join(f"{each.to_json()}\n" for each in [*records, tabs]))
    for words in (("show",), ("export", "--csv")):
        assert f"{RECORD.metric}" in run("results", *words, "--records", "r.jsonl")


@pytest.mark.long
def test_lines_of_a_log_that_are_like_many_errors(run: Run, tmp_path: Path) -> None:
    """Many rules are tried on each."""
    examples, draw = [" ".join(rule.example.split()) for rule in bundled()[0]], random.Random(0)
    lines = (" ".join(draw.sample(examples, 100))[:LONGEST] for _ in range(150))
    (log := tmp_path / "build.log").write_text("\n".join(lines))
    assert "line 1: " in run("explain", log)
