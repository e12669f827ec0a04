from __future__ import annotations

import pytest

from reprokit.errors import UsageError


def test_it_passes_check_and_renders_as_it_is(call, tmp_path):
    assert call("new", "my-paper").exit_code == 0
    assert (tmp_path / "recipes" / "my-paper.yaml").read_text().count("#") > 15
    assert call("check", "my-paper").exit_code == 0
    assert "FROM ${BASE} AS base" in call("render", "my-paper").stdout


def test_its_commented_parts_are_right_too(call, tmp_path):
    call("new", "my-paper")
    file = tmp_path / "recipes" / "my-paper.yaml"
    lines = file.read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if line.strip() == "# cuda:")
    lines[start:] = [line.replace("  # ", "  ", 1) if i < 7 else line for i, line in enumerate(lines[start:])]
    file.write_text("\n".join(lines) + "\n")
    assert call("check", "my-paper:cuda").exit_code == 0
    assert "nvcc" in call("render", "my-paper:cuda").stdout


def test_it_overwrites_nothing(call, tmp_path):
    call("new", "my-paper")
    file = tmp_path / "recipes" / "my-paper.yaml"
    file.write_text("mine")
    result = call("new", "my-paper")
    assert isinstance(result.exception, UsageError) and file.read_text() == "mine"


@pytest.mark.parametrize("name", ["My", "a b", "../x", "", "a--b", "x" * 61, "a/b", "-x", "x:y"])
def test_a_name_that_is_none_writes_nothing(call, tmp_path, name):
    result = call("new", "--", name)
    assert isinstance(result.exception, UsageError) and list(tmp_path.iterdir()) == []
