"""Layers that a target has."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reprokit.bundle import delta
from reprokit.errors import UsageError
from reprokit.oci.read import EngineImage


def _image(*layers: str) -> EngineImage:
    return EngineImage("x:1", "id", 1, layers, {})


def test_layers_on_top_of_the_same_layers_are_excluded():
    assert delta.excluded_layers([_image("a", "b", "c")], [("a", "b", "d")]) == {"a", "b"}
    assert delta.excluded_layers([_image("a", "b", "c")], [("b", "c")]) == frozenset()
    assert delta.excluded_layers([_image("a", "b")], []) == frozenset()


def test_a_layer_that_another_image_needs_is_included():
    assert delta.excluded_layers([_image("a", "b"), _image("c", "b")], [("a", "b")]) == {"a"}


def test_an_inventory_is_read_and_other_files_are_refused(tmp_path: Path):
    inspected = [{"RootFS": {"Type": "layers", "Layers": ["c"]}}, {"RootFS": {"Type": "layers"}}]
    (tmp_path / "i").write_text(json.dumps(inspected))
    assert list(delta.of_inventory(tmp_path / "i")) == [("c",), ()]
    for other in ({"images": []}, [{"Name": "a container"}], ["x"], 1, None):
        (tmp_path / "i").write_text(json.dumps(other))
        with pytest.raises(UsageError, match="not an inventory"):
            list(delta.of_inventory(tmp_path / "i"))
    with pytest.raises(UsageError, match="cannot be read"):
        list(delta.of_inventory(tmp_path / "none"))
