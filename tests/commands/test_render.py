from __future__ import annotations

import errno
import json

from reprokit.errors import EngineError, UsageError


def test_to_standard_output_and_to_a_folder_are_the_same(call, tmp_path):
    printed = call("render", "featgraph:cpu").stdout
    result = call("render", "featgraph:cpu", "-o", "deep/my papers")
    assert (tmp_path / "deep/my papers/Dockerfile").read_text() == printed
    assert result.stdout == "" and "docker build -t featgraph:cpu 'deep/my papers'" in result.stderr


def test_a_folder_that_cannot_be_is_one_line(call, tmp_path):
    (tmp_path / "file").touch()
    result = call("render", "featgraph:cpu", "-o", "file")
    assert isinstance(result.exception, UsageError) and result.exception.where == "file"


def test_a_full_disk_is_no_wrong_usage(call, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("reprokit.image.context.write_context", full)
    assert isinstance(call("render", "featgraph:cpu", "-o", "d").exception, EngineError)


def test_a_wrong_block_is_refused(call, recipe):
    recipe("mine", "variants:\n  a:\n    base: debian:12\n    blocks: [aptt]\n")
    result = call("render", "mine")
    assert isinstance(result.exception, UsageError) and result.exception.where.endswith("mine.yaml:6")


def test_as_json(call):
    found = json.loads(call("render", "featgraph:cpu", "--json").stdout)
    assert found["recipe"] == "featgraph:cpu" and found["dockerfile"] == call("render", "featgraph:cpu").stdout
    assert found["blocks"][0][0] == 1
    assert json.loads(call("render", "featgraph:cpu", "-o", "x", "--json").stdout)["file"] == "x/Dockerfile"
