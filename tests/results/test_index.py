"""The index gives what the file holds, whatever happened to the file or to the index."""

from __future__ import annotations

import os
import sqlite3

import pytest

from reprokit.errors import UsageError
from reprokit.results import index
from reprokit.results.index import read_groups
from reprokit.results.likeness import groups
from reprokit.results.lines import append, read, remove


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setattr(index, "LARGE", 0)
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path / "home"))
    return tmp_path / "r.jsonl"


def check(file) -> None:
    assert read_groups(file) == groups(read(file))


def test_the_index_follows_the_file(record, file, tmp_path):
    append(tmp_path, "r.jsonl", [record(), record(params={"n": 1.0}), record(samples=(9.0,), repeats=(1,))])
    check(file)
    check(file)
    append(tmp_path, "r.jsonl", [record(params={"n": 1}), record(warnings=("heat",)), record()])
    check(file)
    assert sum(group.repeated for group in read_groups(file)) == 1
    with file.open("a") as opened:
        opened.write('{"torn')
    check(file)
    append(tmp_path, "r.jsonl", [record(metric="after")])
    check(file)
    remove(tmp_path, "r.jsonl", read(file)[::2])
    check(file)
    content = file.read_bytes().replace(b'"ms"', b'"us"')
    file.write_bytes(content)  # in place, of the same size
    check(file)


def test_a_last_line_without_its_end_counts_once(record, file, tmp_path):
    append(tmp_path, "r.jsonl", [record()])
    with file.open("a") as opened:
        opened.write(record(metric="last").to_json())
    check(file)
    assert len(read_groups(file)) == 2
    append(tmp_path, "r.jsonl", [record(metric="after")])
    check(file)
    with file.open("a") as opened:
        opened.write('{"schema": 9}\n')
    with pytest.raises(UsageError) as failure:
        read_groups(file)
    assert failure.value.where == f"{file}:4"


def test_growth_within_one_tick_of_the_clock_is_seen(record, file, tmp_path):
    append(tmp_path, "r.jsonl", [record()])
    check(file)
    before = file.stat()
    append(tmp_path, "r.jsonl", [record(metric="after")])
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    check(file)


def test_a_line_that_was_edited_before_the_file_grew_is_seen(record, file, tmp_path):
    append(tmp_path, "r.jsonl", [record(), *(record(metric=f"m{n}") for n in range(9))])
    check(file)
    content = file.read_bytes()
    file.write_bytes(content.replace(b'"ms"', b'"us"', 1))  # in place, as some editors write
    append(tmp_path, "r.jsonl", [record(metric="after")])
    check(file)


def test_a_damaged_index_is_made_again(record, file, tmp_path):
    append(tmp_path, "r.jsonl", [record()])
    check(file)
    (database,) = (tmp_path / "home" / "results").iterdir()
    database.write_bytes(b"no database" * 1000)
    check(file)


def test_a_full_disk_only_costs_time(record, file, tmp_path, monkeypatch):
    connect = sqlite3.connect

    def full(path, **options):
        database = connect(path, **options)
        database.execute("PRAGMA max_page_count = 1")
        return database

    monkeypatch.setattr(sqlite3, "connect", full)
    append(tmp_path, "r.jsonl", [record(), record(cpu="Xeon")])
    check(file)


def test_small_files_need_no_index(record, file, tmp_path, monkeypatch):
    monkeypatch.setattr(index, "LARGE", 1 << 20)
    append(tmp_path, "r.jsonl", [record()])
    check(file)
    assert not (tmp_path / "home").exists()
