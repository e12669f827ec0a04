"""Layers that need not travel."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reprokit.bundle import leave
from reprokit.bundle.collect import Wanted
from reprokit.errors import UsageError


def _image(*layers: str) -> Wanted:
    return Wanted("x:1", "id", 1, layers, {})


def test_what_lies_upon_the_same_layers_is_left_out():
    assert leave.left_out([_image("a", "b", "c")], [("a", "b", "d")]) == {"a", "b"}
    assert leave.left_out([_image("a", "b", "c")], [("b", "c")]) == frozenset()
    assert leave.left_out([_image("a", "b")], []) == frozenset()


def test_a_layer_that_another_image_needs_travels():
    assert leave.left_out([_image("a", "b"), _image("c", "b")], [("a", "b")]) == {"a"}


def test_an_inventory_is_read_and_nonsense_is_named(tmp_path: Path):
    held = {"id": "sha256:1", "tags": ["x:1"], "layers": ["a", "b"], "size": 3, "labels": {}}
    whole = {"version": "20.10", "architecture": "amd64", "containerd": False, "storage": "overlay2"}
    (tmp_path / "i").write_text(json.dumps({**whole, "free": 1, "zstd": True, "images": [held]}))
    assert list(leave.of_inventory(tmp_path / "i")) == [("a", "b")]
    inspected = [{"RootFS": {"Type": "layers", "Layers": ["c"]}}, {"RootFS": {"Type": "layers"}}]
    (tmp_path / "i").write_text(json.dumps(inspected))
    assert list(leave.of_inventory(tmp_path / "i")) == [("c",), ()]
    (tmp_path / "i").write_text(json.dumps(whole))
    with pytest.raises(UsageError, match="no inventory"):
        list(leave.of_inventory(tmp_path / "i"))
    with pytest.raises(UsageError, match="cannot be read"):
        list(leave.of_inventory(tmp_path / "none"))
