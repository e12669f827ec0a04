"""Inputs are made once, never half, and named by what is in them."""

from __future__ import annotations

import hashlib

import pytest

from reprokit.bench.inputs import prepare
from reprokit.errors import WorkFailed
from reprokit.recipe.model import Input


def no_data(file: Input) -> None:
    raise AssertionError(f"{file.path} is made, not fetched")


def made(path: str, make: str) -> list[Input]:
    return [Input(path=path, make=make)]


def test_a_missing_input_is_made_and_hashed_and_a_present_one_is_kept(here, tmp_path):
    inputs = made("data/graph.npz", "echo made >> count; printf abc > data/graph.npz")
    assert prepare(here, inputs, ".", no_data, {}) == {"data/graph.npz": hashlib.sha256(b"abc").hexdigest()}
    assert prepare(here, inputs, ".", no_data, {}) == {"data/graph.npz": hashlib.sha256(b"abc").hexdigest()}
    assert (tmp_path / "count").read_text() == "made\n"
    assert sorted(p.name for p in (tmp_path / "data").iterdir()) == ["graph.npz", "graph.npz.made"]


def test_an_input_is_made_again_where_its_command_changed_but_not_one_of_the_user(here, tmp_path):
    prepare(here, made("graph", "printf old > graph"), ".", no_data, {})
    prepare(here, made("graph", "printf new > graph"), ".", no_data, {})
    assert (tmp_path / "graph").read_text() == "new"
    (tmp_path / "own").write_text("mine")
    prepare(here, made("own", "printf new > own"), ".", no_data, {})
    assert (tmp_path / "own").read_text() == "mine"


def test_an_input_is_made_again_where_the_data_before_it_changed(here, tmp_path):
    content = ["first"]

    def place(file: Input) -> None:
        if not (tmp_path / file.path).exists():
            (tmp_path / file.path).write_text(content[-1])

    inputs = [Input(path="zip", data="zip"), *made("upper", "tr a-z A-Z < zip > upper; echo made >> count")]
    for _ in range(2):
        prepare(here, inputs, ".", place, {})
    assert (tmp_path / "upper").read_text() == "FIRST" and (tmp_path / "count").read_text() == "made\n"
    content.append("second")
    (tmp_path / "zip").unlink()
    prepare(here, inputs, ".", place, {})
    assert (tmp_path / "upper").read_text() == "SECOND"


def test_an_input_of_several_benchmarks_is_made_once(here, tmp_path):
    """They list other inputs above it, and may run at the same time: one must not take it from the other."""

    def place(file: Input) -> None:
        if not (tmp_path / file.path).exists():
            (tmp_path / file.path).write_text(file.data)

    upper = made("upper", "tr a-z A-Z < zip > upper; echo made >> count")
    above = (["zip", "other"], ["zip"], [], ["other", "zip"])
    lists = [[Input(path=name, data=name) for name in names] for names in above]
    for inputs in lists:
        prepare(here, [*inputs, *upper], ".", place, {})
    assert (tmp_path / "count").read_text() == "made\n"
    (tmp_path / "zip").write_text("other")
    for inputs in lists:
        prepare(here, [*inputs, *upper], ".", place, {})
    assert (tmp_path / "count").read_text() == "made\nmade\n" and (tmp_path / "upper").read_text() == "OTHER"


def test_data_is_put_there_and_named_like_what_is_made(here, tmp_path):
    def place(file: Input) -> None:
        (tmp_path / file.path).write_bytes(file.data.encode())

    found = prepare(here, [Input(path="reddit.zip", data="reddit.zip")], ".", place, {})
    assert found == {"reddit.zip": hashlib.sha256(b"reddit.zip").hexdigest()}


def test_data_in_the_workspace_that_is_not_the_locked_file_is_refused(here, tmp_path):
    (tmp_path / "g").write_text("altered")
    file, locked = [Input(path="g", data="g.zip")], hashlib.sha256(b"locked").hexdigest()
    with pytest.raises(WorkFailed, match=r"the data g\.zip in the workspace is not the locked file") as refused:
        prepare(here, file, ".", lambda file: None, {"g.zip": locked})
    assert refused.value.where == "g" and "remove it" in refused.value.hint
    (tmp_path / "g").write_text("locked")
    assert prepare(here, file, ".", lambda file: None, {"g.zip": locked}) == {"g": locked}


def test_what_a_killed_command_left_is_made_again(here, tmp_path):
    (tmp_path / "graph").write_text("hal")
    (tmp_path / "graph.making").touch()
    prepare(here, made("graph", "printf whole > graph"), ".", no_data, {})
    assert (tmp_path / "graph").read_text() == "whole"
    assert not (tmp_path / "graph.making").exists()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        ("printf hal > graph; echo no space >&2; exit 7", r"exit code 1\): no space"),
        ("true", "the command succeeded but did not create graph"),
    ],
)
def test_a_command_that_fails_is_told_and_tried_again(here, tmp_path, make, message):
    with pytest.raises(WorkFailed, match=f"the input graph could not be created .*{message}"):
        prepare(here, made("graph", make), ".", no_data, {})
    prepare(here, made("graph", "printf whole > graph"), ".", no_data, {})
    assert (tmp_path / "graph").read_text() == "whole"


def test_a_folder_counts_as_all_that_is_in_it(here, tmp_path):
    inputs = made("data", "mkdir -p data/a && echo 1 > data/a/x && echo 2 > data/y")
    first = prepare(here, inputs, ".", no_data, {})
    assert prepare(here, inputs, ".", no_data, {}) == first
    (tmp_path / "data" / "a" / "x").write_text("3")
    assert prepare(here, inputs, ".", no_data, {}) != first


def test_braces_and_quotes_of_a_command_are_its_own(here, tmp_path):
    prepare(here, made("x", """python3 -c 'open("x", "w").write("{}".format({1: "a"}))'"""), ".", no_data, {})
    assert (tmp_path / "x").read_text() == "{1: 'a'}"


@pytest.mark.parametrize(
    "tool", ["exit 127", "true", "echo", "echo $(seq 64)", "printf %064d 1; exit 1", "printf %063d 1", "printf %064s g"]
)
def test_a_checksum_is_that_of_a_working_sha256sum(here, tmp_path, tool: str):
    (tmp_path / "graph").write_text("abc")
    replaced = tmp_path / "bin" / "sha256sum"
    replaced.parent.mkdir()
    replaced.write_text(f"#!/bin/sh\n{tool}\n")
    replaced.chmod(0o755)
    with pytest.raises(WorkFailed, match="no checksum of the input graph"):
        prepare(here, made("graph", "true"), ".", no_data, {})
    replaced.unlink()
    assert prepare(here, made("graph", "true"), ".", no_data, {}) == {"graph": hashlib.sha256(b"abc").hexdigest()}


def test_a_file_that_cannot_be_read_has_no_checksum(here, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "gone").symlink_to("gone")
    with pytest.raises(WorkFailed, match="no checksum of the input data/gone"):
        prepare(here, [Input(path="data/gone", data="x")], ".", lambda file: None, {})
