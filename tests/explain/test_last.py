"""The log of the last failure."""

from __future__ import annotations

from pathlib import Path

import pytest

from reprokit.errors import UsageError
from reprokit.explain import last


@pytest.fixture(autouse=True)
def _home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path))


def test_the_newest_is_found():
    last.record([b"first\n"])
    last.record([b"second\n", b"and more\n"])
    assert last.find().read_bytes() == b"second\nand more\n"


def test_it_is_private():
    path = last.record([b"secret"])
    assert path.stat().st_mode & 0o077 == 0
    assert path.parent.stat().st_mode & 0o077 == 0


def test_its_size_is_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(last, "_MOST", 10)
    assert last.record([b"12345678", b"abcdefgh", b"x"]).read_bytes() == b"12345678ab"


def test_none_yet_is_an_error_with_a_hint():
    with pytest.raises(UsageError, match="no failure was recorded") as error:
        last.find()
    assert "reprokit explain FILE" in error.value.hint
