"""Records on disk: written whole or not at all, by many at once, and read back as they were."""

from __future__ import annotations

import errno
import itertools
import json
import os
import subprocess
import sys
import threading
import tracemalloc

import pytest

from reprokit.errors import EngineError, UsageError, WorkFailed
from reprokit.results.lines import append, check_writable, read, remove
from reprokit.results.record import SCHEMA
from tests.support.records import RECORD


@pytest.fixture
def file(tmp_path, monkeypatch):
    """The file of records that `add` appends to."""
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path / "home"))
    return tmp_path / "r.jsonl"


def add(file, *records):
    append(file.parent, file.name, records)


def add_text(file, text: str | bytes) -> None:
    with file.open("ab") as opened:
        opened.write(text if isinstance(text, bytes) else text.encode())


def test_what_is_written_is_read_back(record, tmp_path):
    file = tmp_path / "results" / "fused-attention.jsonl"
    odd = record(unit="µs", params={"name": 'a "b"\n\ud800', "n": 1, "x": 1.0, "mask": None}, files={"g.npz": "ab"})
    append(tmp_path, "results/fused-attention.jsonl", [record(), odd])
    add(file, record(metric="other"))
    odd.params["name"] = 'a "b"\n?'  # half a surrogate pair is no text
    assert read(file) == [record(), odd, record(metric="other")]
    assert all(json.loads(line)["schema"] == SCHEMA for line in file.read_text().splitlines())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"params": {"seed": 10**38}}, "an integer of more than 24 digits"),
        ({"params": {"x": float("inf")}}, "a number is not finite"),
        ({"environment": {"a": [0] * 1000}}, "values in a JSON document"),
    ],
)
def test_a_record_that_could_not_be_read_again_is_not_written(record, file, monkeypatch, change, message):
    monkeypatch.setenv("REPROKIT_LIMIT_VALUES", "900")
    with pytest.raises(WorkFailed, match=f"the results cannot be recorded: .*{message}") as error:
        add(file, record(), record(**change))
    assert error.value.hint != "remove this line" and not file.exists()


def test_many_writers_lose_nothing_and_mix_nothing(record, file):
    def write(n: int) -> None:
        for _ in range(20):
            add(file, *[record(params={"writer": n, "text": "x" * 9000})] * 3)

    threads = [threading.Thread(target=write, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writers = [r.params["writer"] for r in read(file)]
    assert len(writers) == 360 and all(len(set(writers[i : i + 3])) == 1 for i in range(0, 360, 3))


WRITER = """
import sys
from dataclasses import replace
from pathlib import Path
from reprokit.results.lines import append, read, remove

folder, number = Path(sys.argv[1]), int(sys.argv[2])
first = read(folder / "seed.jsonl")[0]
for turn in range(40):
    append(folder, "r.jsonl", [replace(first, params={"writer": number, "turn": turn})])
    if turn % 10 == 9:  # keeps every line that is there, by a new file
        remove(folder, "r.jsonl", [first])
"""


@pytest.mark.slow
def test_two_processes_lose_nothing_also_while_old_records_are_removed(record, tmp_path):
    append(tmp_path, "seed.jsonl", [record()])
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), str(n)]) for n in range(2)]
    assert [writer.wait(200) for writer in writers] == [0, 0]
    written = [(r.params["writer"], r.params["turn"]) for r in read(tmp_path / "r.jsonl")]
    assert sorted(written) == [(writer, turn) for writer in range(2) for turn in range(40)]


def test_only_the_records_that_are_removed_are_gone(record, file, tmp_path):
    add(file, *(record(metric=f"m{n}") for n in (0, 1, 2, 2)))
    chosen = read(file)[:3]
    add(file, record(metric="later"))
    remove(tmp_path, "r.jsonl", chosen[::2])
    assert [r.metric for r in read(file)] == ["m1", "m2", "later"]
    remove(tmp_path, "r.jsonl", chosen[:1])  # another process did
    assert len(read(file)) == 3


def test_a_full_disk_leaves_what_was_there(record, file, monkeypatch):
    add(file, record())
    before, real = file.read_bytes(), os.write

    def full(handle: int, data: bytes) -> int:
        real(handle, data[:40])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(EngineError, match="No space left on device") as error:
        add(file, record())
    assert error.value.where == str(file) and file.read_bytes() == before


@pytest.mark.parametrize("torn", [b'{"schema": 1, "metr', b'{"schema": 2, "unit": "\xc3', b"{" * 200_000])
def test_a_torn_last_line_is_ignored_then_removed(record, file, torn):
    add(file, record())
    add_text(file, torn)
    assert read(file) == [record()]
    add(file, record(metric="next"))
    assert read(file) == [record(), record(metric="next")] and torn not in file.read_bytes()
    # The control: a last record without its line end is kept.
    file.write_text(record().to_json())
    add(file, record(metric="next"))
    assert read(file) == [record(), record(metric="next")]


GOOD = RECORD.to_json()


def changed(**change: object) -> str:
    return json.dumps({**json.loads(GOOD), **change})


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"schema": 1, "metr', "no JSON"),
        (changed(schema=SCHEMA + 1), "schema"),
        (changed(schema=10**4000), "unknown schema 10{39}$"),
        (changed(samples=[]), "samples: Tuple should have at least 1 item, not 0"),
        (changed(samples=[1, "2"]), "samples"),
        (changed(samples=[float("nan")]), "not finite"),
        (changed(params={"x": float("nan")}), "not finite"),
        (changed(unit=3), "unit: "),
        (changed(params=None), "params: "),
        (changed(threads="2"), "threads: "),
        (
            json.dumps({name: value for name, value in json.loads(GOOD).items() if name != "input_hash"}),
            "input_hash: F",
        ),
        *((changed(**{name: 10**400}), f"{name}: ") for name in ("threads", "warm_up")),
        (changed(repeats=[10**400]), r"repeats\.0: "),
        *((changed(before={name: 10**400}), f"before.{name}: ") for name in ("cpu_clock", "throttles")),
        (changed(after={"gpu_clock": [10**400]}), r"after.gpu_clock.0: "),
        *(
            (changed(**{name: {"x": [{"y": -(10**30)}]}}), "an integer of more than 24 digits")
            for name in ("params", "variables", "clocks", "environment")
        ),
        (changed(params={"x": "?"}).replace('"?"', "9" * 5000), "4300"),
        *(
            (changed(params={"x": "?"}).replace('"?"', text), "not finite")
            for text in ("1e999", "[1E+400]", "[-1e0999]")
        ),
    ],
    ids=itertools.count(),
)
def test_what_is_no_record_is_named_with_its_line(file, line, message):
    file.write_text(f"{GOOD}\n{line}\n{GOOD}\n")
    with pytest.raises(UsageError, match=message) as error:
        read(file)
    assert error.value.where == f"{file}:2"
    if message.endswith(": "):  # a wrong field
        assert error.value.hint == "remove this line"


def test_a_file_that_cannot_be_read_or_written_is_named(record, tmp_path):
    with pytest.raises(UsageError, match="no results yet"):
        read(tmp_path / "r.jsonl")
    (tmp_path / "results").write_text("a file where the folder should be")
    with pytest.raises(UsageError) as error:
        append(tmp_path, "results/x.jsonl", [record()])
    assert "results/x.jsonl" in error.value.where
    with pytest.raises(UsageError, match="the results cannot be written: Is a directory"):
        check_writable(tmp_path)


@pytest.mark.parametrize("planted", ["results/x.jsonl", "results"])
def test_a_planted_link_is_not_appended_to(record, tmp_path, planted):
    (tmp_path / "home").mkdir()
    checkout = tmp_path / "checkout"
    (checkout / planted).parent.mkdir(parents=True)
    (checkout / planted).symlink_to(tmp_path / "home" if planted == "results" else tmp_path / "home" / ".profile")
    with pytest.raises(UsageError, match="a link is in the way"):
        append(checkout, "results/x.jsonl", [record()])
    assert list((tmp_path / "home").iterdir()) == []


def test_a_file_without_line_ends_is_refused_and_kept(record, file, tmp_path, monkeypatch):
    """A sparse file has any size; read backwards, each block was once copied for each block before it."""
    monkeypatch.setenv("REPROKIT_LIMIT_DOCUMENT", str(1 << 20))
    file.touch()
    os.truncate(file, 1 << 40)
    with pytest.raises(UsageError, match="bytes in the last line") as error:
        add(file, record())
    assert "REPROKIT_LIMIT_DOCUMENT=" in error.value.hint and file.stat().st_size == 1 << 40
    for reading in (lambda: read(file), lambda: remove(tmp_path, "r.jsonl", [record()])):
        with pytest.raises(UsageError, match="bytes in a line"):
            reading()
    # The control: a last line of many blocks.
    long = record(params={"text": "x" * 300_000})
    file.write_text(record().to_json() + "\n" + long.to_json())
    add(file, record())
    assert read(file) == [record(), long, record()]


def test_a_file_that_is_too_large_is_refused(record, file, monkeypatch):
    add(file, *[record()] * 3)
    size = file.stat().st_size
    monkeypatch.setenv("REPROKIT_LIMIT_RESULTS", str(size - 1))
    with pytest.raises(UsageError, match="bytes in a file of records") as error:
        read(file)
    assert "REPROKIT_LIMIT_RESULTS=" in error.value.hint
    monkeypatch.setenv("REPROKIT_LIMIT_RESULTS", str(size))
    assert len(read(file)) == 3


@pytest.mark.slow
def test_lines_are_not_read_at_once(file, monkeypatch):
    """64 MiB of line ends were 67 million lines in a list."""
    monkeypatch.setenv("REPROKIT_LIMIT_RESULT_VALUES", "1000000")
    file.write_bytes(b"\n" * (64 << 20))
    tracemalloc.start()
    with pytest.raises(UsageError, match="values in a file of records"):
        read(file)
    assert tracemalloc.get_traced_memory()[1] < 16 << 20
    tracemalloc.stop()
    file.write_bytes(b"\n" * 99_999)  # the control
    assert read(file) == []


def test_a_last_line_without_its_end_counts_once(record, file):
    add(file, record())
    add_text(file, record(metric="last").to_json())
    assert len(read(file)) == 2
    add(file, record(metric="after"))
    add_text(file, '{"schema": 9}\n')
    with pytest.raises(UsageError) as failure:
        read(file)
    assert failure.value.where == f"{file}:4"
