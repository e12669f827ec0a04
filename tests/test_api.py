"""The Python interface: what is not just a function of another module."""

from __future__ import annotations

from pathlib import Path

import pytest

from reprokit import api
from reprokit.errors import UsageError
from tests.support.images import tar_of
from tests.support.made import Made

RECIPE = """
name: x
paper: {title: T, venue: V, year: 2024, licence: none}
variants: {cpu: {base: "debian:12", pins: {torch: "1.8.0", python: "3.12"}}}
"""


def test_check(recipes: Path):
    (recipes / "x.yaml").write_text(RECIPE)
    assert "torch" in next(each for each in api.check(api.target("x")) if each.severity == "error").reason


@pytest.mark.engine
@pytest.mark.parametrize("name", ["reprokit/own/base:1", "x/y:1"])
def test_a_strangers_bundle_takes_no_name_unasked(engine: api.Engine, tmp_path: Path, name: str):
    """The function checks what the verb does: neither reserved names nor those of no recipe."""
    bundle = Made.of({name: [tar_of({"x": b"1"})]}).write(tmp_path / "x.rkit")
    with pytest.raises(UsageError):
        api.load(engine, [bundle])
    assert engine.image(name) is None


@pytest.mark.engine
def test_a_bundle_is_loaded_and_exported(engine: api.Engine, tmp_path: Path):
    bundle = Made.of({"reprokit/api-test:cpu": [tar_of({"x": b"1"})]}).write(tmp_path / "x.rkit")
    lines: list[str] = []
    try:
        with api.reporting(lines.append):
            assert api.load(engine, [bundle], trusted=True).new == ["reprokit/api-test:cpu"]
        assert any("is not signed" in line for line in lines)
        (image,) = api.export(engine, ["reprokit/api-test:cpu"], tmp_path / "y.rkit").images
        assert image.name == "reprokit/api-test:cpu" and (tmp_path / "y.rkit").exists()
    finally:
        engine.remove_image("reprokit/api-test:cpu", force=True)
