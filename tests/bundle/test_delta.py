"""Layers that need not travel."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reprokit.bundle import delta
from reprokit.errors import UsageError
from reprokit.oci.read import EngineImage


def _image(*layers: str) -> EngineImage:
    return EngineImage("x:1", "id", 1, layers, {})


def test_what_lies_upon_the_same_layers_is_left_out():
    assert delta.excluded_layers([_image("a", "b", "c")], [("a", "b", "d")]) == {"a", "b"}
    assert delta.excluded_layers([_image("a", "b", "c")], [("b", "c")]) == frozenset()
    assert delta.excluded_layers([_image("a", "b")], []) == frozenset()


def test_a_layer_that_another_image_needs_travels():
    assert delta.excluded_layers([_image("a", "b"), _image("c", "b")], [("a", "b")]) == {"a"}


def test_an_inventory_is_read_and_nonsense_is_named(tmp_path: Path):
    held = {"id": "sha256:1", "tags": ["x:1"], "layers": ["a", "b"], "size": 3, "labels": {}}
    whole = {"version": "20.10", "architecture": "amd64", "containerd": False, "storage": "overlay2"}
    (tmp_path / "i").write_text(json.dumps({**whole, "free": 1, "zstd": True, "images": [held]}))
    assert list(delta.of_inventory(tmp_path / "i")) == [("a", "b")]
    inspected = [{"RootFS": {"Type": "layers", "Layers": ["c"]}}, {"RootFS": {"Type": "layers"}}]
    (tmp_path / "i").write_text(json.dumps(inspected))
    assert list(delta.of_inventory(tmp_path / "i")) == [("c",), ()]
    (tmp_path / "i").write_text(json.dumps(whole))
    with pytest.raises(UsageError, match="not an inventory"):
        list(delta.of_inventory(tmp_path / "i"))
    with pytest.raises(UsageError, match="cannot be read"):
        list(delta.of_inventory(tmp_path / "none"))
