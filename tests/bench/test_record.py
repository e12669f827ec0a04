"""Records on disk: written whole or not at all, by many at once, and read back as they were."""

from __future__ import annotations

import errno
import json
import os
import threading

import pytest

from reprokit.bench.record import SCHEMA, append, read
from reprokit.errors import EngineError, UsageError


def test_what_is_written_is_read_back(record, tmp_path):
    file = tmp_path / "results" / "fused-attention.jsonl"
    odd = record(unit="µs", params={"name": 'a "b"\n\ud800', "n": 1, "x": 1.0, "mask": None}, files={"g.npz": "ab"})
    append(tmp_path, "results/fused-attention.jsonl", [record(), odd])
    append(file.parent, file.name, [record(metric="other")])
    assert read(file) == [record(), odd, record(metric="other")]
    assert all(json.loads(line)["schema"] == SCHEMA for line in file.read_text().splitlines())


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


def test_a_line_that_was_cut_off_is_not_glued_to_the_next(record, tmp_path):
    file = tmp_path / "r.jsonl"
    file.write_text('{"schema": 1, "metr')
    append(file.parent, file.name, [record()])
    with pytest.raises(UsageError) as error:
        read(file)
    assert error.value.where == f"{file}:1"
    assert file.read_text().splitlines()[1] == record().to_json()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": SCHEMA + 1}, "schema"),
        ({"samples": []}, "samples"),
        ({"samples": [1, "2"]}, "samples"),
        ({"samples": [float("nan")]}, "samples"),
        ({"unit": 3}, "unit is 3"),
        ({"params": None}, "params is None"),
        ({"threads": "2"}, "threads is '2'"),
    ],
)
def test_what_is_no_record_is_named_with_its_line(record, tmp_path, change, message):
    file = tmp_path / "r.jsonl"
    file.write_text(record().to_json() + "\n" + json.dumps({**json.loads(record().to_json()), **change}) + "\n")
    with pytest.raises(UsageError, match=message) as error:
        read(file)
    assert error.value.where == f"{file}:2"


def test_missing_field_and_missing_file_are_named(record, tmp_path):
    file = tmp_path / "r.jsonl"
    with pytest.raises(UsageError, match="no results yet"):
        read(file)
    data = json.loads(record().to_json())
    del data["input_hash"]
    file.write_text(json.dumps(data))
    with pytest.raises(UsageError, match="it has no input_hash"):
        read(file)


def test_a_file_that_cannot_be_written_is_named(record, tmp_path):
    (tmp_path / "results").write_text("a file where the folder should be")
    with pytest.raises(EngineError) as error:
        append(tmp_path, "results/x.jsonl", [record()])
    assert "results/x.jsonl" in error.value.where


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
