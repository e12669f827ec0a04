"""`reprokit diff` of images."""

from __future__ import annotations

import json

import pytest
import typer

from reprokit.commands.diff import diff
from reprokit.engine import Engine
from reprokit.verify import layers, run
from reprokit.verify.compare import ComparedLayer
from reprokit.verify.run import Verification


@pytest.mark.parametrize(
    ("layer", "code", "shown"),
    [
        (ComparedLayer(1, "", files=1, same=1), 0, "the same\n"),
        (ComparedLayer(1, "", files=1, times=1), 0, "the same files, other times or names of owners\n"),
        (ComparedLayer(1, "", files=1, differ=1), 1, "differs\n"),
    ],
)
def test_images_differ_by_what_containers_see(monkeypatch, capsys, layer: ComparedLayer, code: int, shown: str):
    """Engines before 23 write names of owners into layers: the same image of another engine is no difference."""
    monkeypatch.setattr(Engine, "connect", lambda: None)
    monkeypatch.setattr(layers.ImageInEngine, "of", lambda engine, name: name)
    monkeypatch.setattr(run, "compare_images", lambda *pair: Verification("a:1", "", 0, [layer]))

    def exit_code(as_json: bool) -> int:
        try:
            diff("a:1", "b:1", as_json=as_json)
        except typer.Exit as ended:
            return ended.exit_code
        return 0

    assert exit_code(False) == code and capsys.readouterr().out.startswith(f"a:1 -> b:1: {shown}")
    assert exit_code(True) == code and json.loads(capsys.readouterr().out)[0]["same"] == (code == 0)
