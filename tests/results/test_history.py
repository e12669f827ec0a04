"""A metric over time."""

from __future__ import annotations

from reprokit.results.history import lines_of, sparkline, table
from reprokit.results.likeness import groups


def test_a_line_goes_on_over_commits_and_images_but_not_machines(record):
    runs = [record(samples=(n,), commit=f"{n:040d}", time=f"2026-11-2{n}T00:00:00Z") for n in (3, 1, 2)]
    lines = lines_of(groups([*runs, record(cpu="Xeon")]))
    assert [[median for _, _, median in line.points] for line in lines] == [[1, 2, 3], [2]]
    shown = table(lines, "attention.forward")
    assert shown.rows[0][3:] == ("3", "1", "3", "+200.0 %", "▁▅█") or shown.rows[0][3:7] == ("3", "1", "3", "+200.0 %")


def test_other_changes_than_those_of_the_code_are_noted_and_one_run_has_no_change(record):
    changes = [{}, {"command": "python3 -m bench --small", "driver": "570", "commit": "a" * 40}, {"cpu": "Xeon"}]
    found = table(lines_of(groups(record(**each) for each in changes)), "attention.forward")
    assert [row[6] for row in found.rows] == ["+0.0 %", ""]
    (note,) = found.notes
    assert note.endswith("batch 8, impl ours: the runs differ in command, driver, not only in code")


def test_lines_that_differ_only_in_node_or_files_are_told_apart(record):
    runs = [record(node="alpha"), record(), record(files={"d": "1f" * 32}), record(cpu="Xeon")]
    rows = table(lines_of(groups(runs)), "attention.forward").rows
    assert [row[2] for row in rows] == [
        "EPYC, 2 threads, node alpha, files.d none", "EPYC, 2 threads, node none, files.d none",
        f"EPYC, 2 threads, node none, files.d {'1f' * 10}", "Xeon, 2 threads",
    ]  # fmt: skip


def test_a_point_names_the_changes_of_its_checkout(record):
    (line,) = lines_of(groups([record(commit="a" * 40, dirty=True, changes="b" * 40)]))
    assert line.points == (("2026-11-21T09:00:00Z", "aaaaaaaaaaaa with changes", 2.0),)


def test_sparklines():
    assert sparkline([1, 2, 3, 4, 5, 6, 7, 8]) == "▁▂▃▄▅▆▇█"
    assert sparkline([5, 5]) == "▁▁"
    assert len(sparkline(range(100))) == 40
