"""What must hold for every input is seen where it does not hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from reprokit.errors import UsageError
from tests.support import fuzzing
from tests.support.fuzzing import watched


def test_faults_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        (tmp_path / "in" / "side").write_text("x")
        raise UsageError("no")

    (tmp_path / "in").mkdir()
    monkeypatch.setattr(fuzzing, "MEMORY", 64 << 20)
    with watched(tmp_path / "in") as watch:
        watch(refuse)  # an error of ours is an answer
        with pytest.raises(KeyError):
            watch(lambda: {}["x"])
        for write in (
            lambda: (tmp_path / "x").write_text("x"),
            lambda: (tmp_path / "folder").mkdir(),
            lambda: (tmp_path / "link").symlink_to("x"),
            lambda: (tmp_path / "x").rename(tmp_path / "y"),
        ):
            with pytest.raises(AssertionError):
                watch(write)
        with pytest.raises(AssertionError, match="MiB"):
            watch(lambda: bytearray(b"x") * (128 << 20))
        monkeypatch.setattr(fuzzing, "SECONDS", 0)
        with pytest.raises(AssertionError, match="it took"):
            watch(lambda: sum(range(1_000_000)))
