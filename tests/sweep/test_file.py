"""A sweep's file: what it may say, and what a stranger's cannot."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from reprokit.errors import UsageError
from reprokit.sweep.file import load


def test_all_fields(written):
    found = load(
        written(
            "runs:\n"
            "  - {recipe: x, variants: [cpu], benchmarks: [spmm], parameters: {THREADS: [1, 2.5, a b, true]}}\n"
            "repeats: 3\nwarm_up: 1\ntimeout: 60\nnodes: [a, user@b]\nseed: 7\n"
        )
    )
    assert found.runs[0].parameters == {"THREADS": [1, 2.5, "a b", True]}
    assert [type(value) for value in found.runs[0].parameters["THREADS"]] == [int, float, str, bool]
    assert (found.repeats, found.warm_up, found.timeout, found.nodes, found.seed) == (3, 1, 60, ["a", "user@b"], 7)


LARGE = "parameters: {A: [%s], B: [%s]}" % ((", ".join(map(str, range(1000))),) * 2)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("runs:\n  - recipe: x\n    " + LARGE, 3, "1000000 jobs are more than a sweep may have, 10000"),
        ("repeats: 1000\nruns:\n- {recipe: x, parameters: {A: [" + "1, " * 99 + "1]}}", 3, "100000 jobs are more"),
        ("runs:\n- {recipe: x}\nrepeats: 1000000", 3, "repeats"),
        ("runs:\n- {recipe: x, parameters: {A: [" + "1, " * 1000 + "1]}}", 2, "runs.0.parameters.A"),
        ("runs: [" + "{recipe: x}, " * 101 + "]", 1, "runs"),
        ("runs:\n- {recipe: ../x}", 2, "has a form or characters that are not allowed"),
        ("runs:\n- {recipe: /etc/x.yaml}", 2, "has a form or characters that are not allowed"),
        ('runs:\n- {recipe: "x\\e[2J"}', 2, "has a form or characters that are not allowed"),
        ("runs:\n- recipe: x\n  variants: [cpu:/../y]", 3, "has a form or characters that are not allowed"),
        ("runs:\n- recipe: x\n  parameters: {'A; touch x': [1]}", 3, "not allowed"),
        ('runs:\n- recipe: x\n  parameters: {A: ["\\e]0;owned\\a"]}', 3, "parameters"),
        (
            "runs:\n- recipe: x\n  parameters: {A: [.nan]}",
            3,
            "parameters.A.0: Input should be a valid string or a valid boolean or a valid integer or a finite number",
        ),
        ("runs:\n- recipe: x\n  parameters: {A: [" + "9" * 25 + "]}", 3, "an integer of more than 24 digits"),
        ("runs:\n- recipe: x\n  parameters: {A: [[1]]}", 3, "parameters.A.0: Input should be a valid string or"),
        ("runs:\n- recipe: x\n  parameters: {A: [{b: 1}]}", 3, "parameters.A.0: Input should be a valid string or"),
        ("runs:\n- recipe: x\n  parameters: {A: [1, ~]}", 3, "parameters.A.1: Input should be a valid string or"),
        ('runs:\n- recipe: x\nnodes:\n- "a\\nb"', 4, "nodes"),
        ("runs:\n- recipe: x\n  benchmark: [spmm]", 3, "unknown field runs.0.benchmark; did you mean benchmarks?"),
        ("runs: &a\n- recipe: x\nnodes: *a", 3, "the alias *a is not allowed"),
        ("repeats: 2", 1, "runs is missing"),
        ("runs:\n- recipe: x\nseed: -1", 3, "seed"),
    ],
    ids=itertools.count(),
)
def test_what_is_refused_has_a_line(written, text, line, message):
    file = written(text)
    with pytest.raises(UsageError) as refused:
        load(file)
    assert message in refused.value.message and refused.value.where == f"{file}:{line}"


def test_other_files_are_refused(written, tmp_path):
    for file in (tmp_path / "none.yaml", tmp_path, written("- x"), written("x" * (2 << 20))):
        with pytest.raises(UsageError):
            load(file)


def test_a_missing_file_is_named_without_a_number(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^cannot read the sweep: No such file or directory$"):
        load(tmp_path / "gone.yaml")
