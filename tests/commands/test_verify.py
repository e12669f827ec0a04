"""`reprokit verify`; images and layers are compared in tests/verify."""

from __future__ import annotations

import pytest

from reprokit.commands import verify
from reprokit.engine import Engine
from reprokit.errors import UsageError
from reprokit.recipe.find import target
from reprokit.verify.compare import ComparedLayer, FileChange
from reprokit.verify.run import Verification


def test_without_a_lock_nothing_is_built(call, recipe):
    recipe("paper", "variants:\n  cpu: {base: 'debian:12'}\n")
    error = call("verify", "paper").exception
    assert isinstance(error, UsageError) and "no lock" in error.message and "reprokit lock paper:cpu" in error.hint


def test_a_missing_bundle_is_not_looked_for_as_an_image(recipe, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    recipe("paper", "variants:\n  cpu: {base: 'debian:12'}\n")
    with (
        pytest.raises(UsageError, match="cannot read the bundle: No such file"),
        verify._image(Engine(None), target("paper"), "old.rkit"),
    ):
        pass


def test_what_differs_comes_first_and_control_characters_are_escaped(capsys: pytest.CaptureFixture[str]):
    layer = ComparedLayer(2, "block git", 20, 5)
    for number in range(12):
        layer.add(FileChange(f"old{number}", "time", "time 1 -> 2"))
    layer.add(FileChange("\x1b[2Jx", "content", "byte 0: 00 -> 01", "a reason"))
    verify._print(Verification("reprokit/x:cpu", "", 5.0, [ComparedLayer(1, "base"), layer]))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "layer 1: same  base"
    assert lines[1] == "layer 2: 1 differ, 12 other times of 20 files  block git"
    assert lines[2].endswith("byte 0: 00 -> 01 (known: a reason)") and "\x1b" not in lines[2]
    assert lines[-2] == "  and 3 more"
    assert lines[-1] == "reprokit/x:cpu differs from what its lock gives (rebuilt in 5 s)"
