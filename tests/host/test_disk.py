"""Free disk space."""

from __future__ import annotations

from pathlib import Path

import pytest

from reprokit.errors import EngineError
from reprokit.host.disk import free_bytes, require_space


def test_disk_of_a_folder_that_is_not_made_yet(tmp_path: Path) -> None:
    free = free_bytes(tmp_path / "not" / "yet")
    assert free is not None
    assert free > 0


def test_too_little_space_is_an_error_with_both_numbers(tmp_path: Path) -> None:
    require_space(1, tmp_path)
    require_space(2_000_000, "/there", free=2_000_000)
    with pytest.raises(EngineError, match="not enough disk space: need 2 MB, 100 B free") as error:
        require_space(2_000_000, "/there", free=100)
    assert error.value.where == "/there" and error.value.hint and error.value.exit_code == 3


def test_unknown_free_space_is_no_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("reprokit.host.disk.free_bytes", lambda folder: None)
    require_space(1 << 60, tmp_path)
