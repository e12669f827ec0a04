"""Records on disk: written whole or not at all, by many at once, and read back as they were."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import threading
import tracemalloc

import pytest

from reprokit.errors import EngineError, UsageError, WorkFailed
from reprokit.results.index import read_groups
from reprokit.results.lines import append, check_writable, read, remove
from reprokit.results.record import SCHEMA


def test_what_is_written_is_read_back(record, tmp_path):
    file = tmp_path / "results" / "fused-attention.jsonl"
    odd = record(unit="µs", params={"name": 'a "b"\n\ud800', "n": 1, "x": 1.0, "mask": None}, files={"g.npz": "ab"})
    append(tmp_path, "results/fused-attention.jsonl", [record(), odd])
    append(file.parent, file.name, [record(metric="other")])
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
def test_a_record_that_could_not_be_read_again_is_not_written(record, tmp_path, monkeypatch, change, message):
    monkeypatch.setenv("REPROKIT_LIMIT_VALUES", "900")
    with pytest.raises(WorkFailed, match=f"the results cannot be recorded: .*{message}") as error:
        append(tmp_path, "r.jsonl", [record(), record(**change)])
    assert error.value.hint != "remove this line"
    assert not (tmp_path / "r.jsonl").exists()


def test_many_writers_lose_nothing_and_mix_nothing(record, tmp_path):
    file = tmp_path / "r.jsonl"
    long = {"text": "x" * 9000}

    def write(n: int) -> None:
        for _ in range(20):
            append(file.parent, file.name, [record(params={"writer": n, **long})] * 3)

    threads = [threading.Thread(target=write, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writers = [r.params["writer"] for r in read(file)]
    assert len(writers) == 360
    assert all(len(set(writers[i : i + 3])) == 1 for i in range(0, 360, 3))


def test_a_full_disk_leaves_what_was_there(record, tmp_path, monkeypatch):
    file = tmp_path / "r.jsonl"
    append(file.parent, file.name, [record()])
    before = file.read_bytes()
    real = os.write

    def full(handle: int, data: bytes) -> int:
        real(handle, data[:40])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(EngineError, match="No space left on device") as error:
        append(file.parent, file.name, [record()])
    assert error.value.where == str(file)
    assert file.read_bytes() == before


@pytest.mark.parametrize("torn", [b'{"schema": 1, "metr', b'{"schema": 2, "unit": "\xc3', b"{" * 200_000])
def test_a_torn_last_line_is_ignored_then_removed(record, tmp_path, torn):
    file = tmp_path / "r.jsonl"
    append(tmp_path, "r.jsonl", [record()])
    with file.open("ab") as opened:
        opened.write(torn)
    assert read(file) == [record()]
    append(tmp_path, "r.jsonl", [record(metric="next")])
    assert read(file) == [record(), record(metric="next")]
    assert torn not in file.read_bytes()


def test_a_last_record_without_its_line_end_is_kept(record, tmp_path):
    file = tmp_path / "r.jsonl"
    file.write_text(record().to_json())
    append(tmp_path, "r.jsonl", [record(metric="next")])
    assert [r.metric for r in read(file)] == [record().metric, "next"]


def test_a_broken_line_inside_a_file_is_named(record, tmp_path):
    file = tmp_path / "r.jsonl"
    file.write_text('{"schema": 1, "metr\n' + record().to_json() + "\n")
    with pytest.raises(UsageError, match="no JSON") as error:
        read(file)
    assert error.value.where == f"{file}:1"


WRITER = """
import sys
from dataclasses import replace
from pathlib import Path
from reprokit.results.index import read_groups
from reprokit.results.lines import append, check_writable, read, remove

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
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    writers = [subprocess.Popen([*command, str(n)]) for n in range(2)]
    assert [writer.wait(200) for writer in writers] == [0, 0]
    found = [(r.params["writer"], r.params["turn"]) for r in read(tmp_path / "r.jsonl")]
    assert sorted(found) == [(writer, turn) for writer in range(2) for turn in range(40)]


def test_only_the_records_that_are_removed_are_gone(record, tmp_path):
    append(tmp_path, "r.jsonl", [record(metric=f"m{n}") for n in (0, 1, 2, 2)])
    chosen = read(tmp_path / "r.jsonl")[:3]
    append(tmp_path, "r.jsonl", [record(metric="later")])
    remove(tmp_path, "r.jsonl", chosen[::2])
    assert [r.metric for r in read(tmp_path / "r.jsonl")] == ["m1", "m2", "later"]
    remove(tmp_path, "r.jsonl", chosen[:1])  # another process did
    assert len(read(tmp_path / "r.jsonl")) == 3


def test_records_of_the_first_schema_are_read(tmp_path):
    (tmp_path / "r.jsonl").write_text(FIRST_SCHEMA + "\n")
    (found,) = read(tmp_path / "r.jsonl")
    assert (found.schema, found.samples, found.repeats, found.machine.memory) == (1, (1.7,), (), 0)


# As reprokit 0.1.0 wrote it.
FIRST_SCHEMA = (
    '{"metric": "spmm", "unit": "ms", "samples": [1.7], "params": {"partitions": 1}, "recipe": "x", "variant": "cpu",'
    ' "benchmark": "spmm", "command": "c", "input_hash": "1f", "image_digest": "sha256:2e", "cpu": "EPYC",'
    ' "threads": 2, "gpu": "", "driver": "", "reprokit": "0.1.0", "time": "2026-11-21T09:00:00Z", "clocks": {},'
    ' "environment": {}, "files": {}, "image_state": "built here", "schema": 1}'
)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": SCHEMA + 1}, "schema"),
        ({"samples": []}, "samples"),
        ({"samples": [1, "2"]}, "samples"),
        ({"samples": [float("nan")]}, "not finite"),
        ({"params": {"x": float("nan")}}, "not finite"),
        ({"unit": 3}, "unit: "),
        ({"params": None}, "params: "),
        ({"threads": "2"}, "threads: "),
        *(({name: 10**400}, f"{name}: ") for name in ("threads", "warm_up")),
        ({"repeats": [10**400]}, r"repeats\.0: "),
        *(({"before": {name: 10**400}}, f"before.{name}: ") for name in ("cpu_clock", "throttles")),
        ({"after": {"gpu_clock": [10**400]}}, r"after.gpu_clock.0: "),
        ({"schema": 10**4000}, "unknown schema 10{39}$"),
        *(
            ({name: {"x": [{"y": -(10**30)}]}}, "an integer of more than 24 digits")
            for name in ("params", "variables", "clocks", "environment")
        ),
    ],
)
def test_what_is_no_record_is_named_with_its_line(record, tmp_path, change, message):
    file = tmp_path / "r.jsonl"
    file.write_text(record().to_json() + "\n" + json.dumps({**json.loads(record().to_json()), **change}) + "\n")
    with pytest.raises(UsageError, match=message) as error:
        read(file)
    assert error.value.where == f"{file}:2"


@pytest.mark.parametrize(
    ("number", "message"),
    [("9" * 5000, "4300"), ("1e999", "not finite"), ("[1E+400]", "not finite"), ("[-1e0999]", "not finite")],
)
def test_a_number_of_many_digits_is_named_with_its_line(record, tmp_path, number, message):
    file = tmp_path / "r.jsonl"
    file.write_text(record(params={"x": "?"}).to_json().replace('"?"', number) + "\n")
    with pytest.raises(UsageError, match=message) as error:
        read(file)
    assert error.value.where == f"{file}:1"


def test_missing_field_and_missing_file_are_named(record, tmp_path):
    file = tmp_path / "r.jsonl"
    with pytest.raises(UsageError, match="no results yet"):
        read(file)
    data = json.loads(record().to_json())
    file.write_text(json.dumps({**data, "samples": []}))
    with pytest.raises(UsageError, match="samples: Tuple should have at least 1 item, not 0"):
        read(file)
    del data["input_hash"]
    file.write_text(json.dumps(data))
    with pytest.raises(UsageError, match="input_hash: Field required") as error:
        read(file)
    assert error.value.hint == "remove this line"


def test_a_file_that_cannot_be_written_is_named(record, tmp_path):
    (tmp_path / "results").write_text("a file where the folder should be")
    with pytest.raises(UsageError) as error:
        append(tmp_path, "results/x.jsonl", [record()])
    assert "results/x.jsonl" in error.value.where


def test_a_folder_in_place_of_the_file_is_named_before_measuring(tmp_path):
    with pytest.raises(UsageError, match="the results cannot be written: Is a directory"):
        check_writable(tmp_path)


@pytest.mark.parametrize("planted", ["results/x.jsonl", "results"])
def test_a_planted_link_is_not_appended_to(record, tmp_path, planted):
    (tmp_path / "home").mkdir()
    target = tmp_path / "home" if planted == "results" else tmp_path / "home" / ".profile"
    checkout = tmp_path / "checkout"
    (checkout / planted).parent.mkdir(parents=True)
    (checkout / planted).symlink_to(target)
    with pytest.raises(UsageError, match="a link is in the way"):
        append(checkout, "results/x.jsonl", [record()])
    assert list((tmp_path / "home").iterdir()) == []


def test_a_file_without_line_ends_is_refused_and_kept(record, tmp_path, monkeypatch):
    """A sparse file has any size; read backwards, each block was once copied for each block before it."""
    monkeypatch.setenv("REPROKIT_LIMIT_DOCUMENT", str(1 << 20))
    file = tmp_path / "r.jsonl"
    file.touch()
    os.truncate(file, 1 << 40)
    with pytest.raises(UsageError, match="bytes in the last line") as error:
        append(tmp_path, "r.jsonl", [record()])
    assert "REPROKIT_LIMIT_DOCUMENT=" in error.value.hint and file.stat().st_size == 1 << 40
    for reading in (lambda: read(file), lambda: remove(tmp_path, "r.jsonl", [record()])):
        with pytest.raises(UsageError, match="bytes in a line"):
            reading()
    # The control: a last line of many blocks.
    long = record(params={"text": "x" * 300_000})
    file.write_text(record().to_json() + "\n" + long.to_json())
    append(tmp_path, "r.jsonl", [record()])
    assert read(file) == [record(), long, record()]


def test_a_file_that_is_too_large_is_refused(record, tmp_path, monkeypatch):
    append(tmp_path, "r.jsonl", [record()] * 3)
    file = tmp_path / "r.jsonl"
    size = file.stat().st_size
    monkeypatch.setenv("REPROKIT_LIMIT_RESULTS", str(size - 1))
    with pytest.raises(UsageError, match="bytes in a file of records") as error:
        read(file)
    assert "REPROKIT_LIMIT_RESULTS=" in error.value.hint
    monkeypatch.setenv("REPROKIT_LIMIT_RESULTS", str(size))
    assert len(read(file)) == 3


@pytest.mark.slow
def test_lines_are_not_read_at_once(tmp_path, monkeypatch):
    """64 MiB of line ends were 67 million lines in a list."""
    monkeypatch.setenv("REPROKIT_LIMIT_RESULT_VALUES", "1000000")
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path / "home"))
    file = tmp_path / "r.jsonl"
    file.write_bytes(b"\n" * (64 << 20))
    tracemalloc.start()
    for reading in (read, read_groups):
        with pytest.raises(UsageError, match="values in a file of records"):
            reading(file)
    assert tracemalloc.get_traced_memory()[1] < 16 << 20
    tracemalloc.stop()
    file.write_bytes(b"\n" * 99_999)  # the control
    assert read(file) == []
