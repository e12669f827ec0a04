"""The file that an export writes into, also where somebody planted another one in its place."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from reprokit.bundle.partial_file import claimed


def test_the_file_of_a_killed_process_is_kept(tmp_path: Path):
    (tmp_path / "partial").write_bytes(b"left")
    with claimed(tmp_path / "partial", pytest.fail) as file:
        assert file.read() == b"left"
        file.write(b" and more")
    assert (tmp_path / "partial").read_bytes() == b"left and more"


def test_two_processes_wait_for_each_other(tmp_path: Path):
    said: list[str] = []

    def renamed(line: str) -> None:
        said.append(line)
        first.close()

    first = claimed(tmp_path / "partial", pytest.fail)
    with claimed(tmp_path / "partial", renamed) as file:
        assert file.read() == b""
    assert len(said) == 1


@pytest.mark.parametrize("plant", [os.symlink, os.link, lambda _, partial: os.mkfifo(partial)])
def test_a_planted_link_or_pipe_is_refused(tmp_path: Path, plant):
    mine = tmp_path / "profile"
    mine.write_bytes(b"mine")
    plant(mine, tmp_path / "partial")
    with pytest.raises(OSError):
        claimed(tmp_path / "partial", pytest.fail)
    assert mine.read_bytes() == b"mine"
