"""What must hold for every input is seen where it does not hold."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from reprokit.errors import UsageError
from tests.support import fuzzing
from tests.support.fuzzing import watched


def test_an_error_of_ours_is_an_answer(tmp_path: Path) -> None:
    def parse() -> None:
        (tmp_path / "inside").write_text("x")
        raise UsageError("no")

    with watched(tmp_path) as watch:
        watch(parse)


def test_another_error_is_a_fault(tmp_path: Path) -> None:
    with watched(tmp_path) as watch, pytest.raises(KeyError):
        watch(lambda: {}["x"])


def test_a_file_outside_is_seen(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for write in (
        lambda: (tmp_path / "x").write_text("x"),
        lambda: (tmp_path / "folder").mkdir(),
        lambda: (tmp_path / "link").symlink_to("x"),
        lambda: (tmp_path / "x").rename(tmp_path / "y"),
    ):
        with watched(tmp_path / "in") as watch, pytest.raises(AssertionError):
            watch(write)


def test_memory_and_time_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzzing, "MEMORY", 64 << 20)
    with pytest.raises(AssertionError, match="MiB"), watched(tmp_path) as watch:
        watch(lambda: bytearray(b"x") * (128 << 20))
    monkeypatch.setattr(fuzzing, "SECONDS", 0.1)

    def busy() -> None:
        began = time.process_time()
        while time.process_time() - began < 0.2:
            pass

    with pytest.raises(AssertionError, match="it took"), watched(tmp_path) as watch:
        watch(busy)
