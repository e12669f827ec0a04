"""Labels of an image."""

from __future__ import annotations

import json

import pytest

from reprokit.image.base.resolve import BaseImage
from reprokit.image.inputs import Inputs
from reprokit.image.labels import labels, minimum_driver
from reprokit.supply.served_set import ServedSet
from tests.support.builds import rendered, target_of

BASE = BaseImage("debian:12", "debian:12", "sha256:" + "1" * 64, "engine", "sha256:" + "2" * 64)


def test_labels():
    inputs = Inputs(rendered("FROM x\n"), BASE, ServedSet())
    found = labels(target_of("x"), inputs, ["cuda with gpu: no"])
    assert found["reprokit.min-driver"] == "450.80.02"
    assert json.loads(found["reprokit.forced"]) == ["cuda with gpu: no"]
    standard = {key.removeprefix("org.opencontainers.image."): value for key, value in found.items()}
    assert standard["title"] == standard["ref.name"] == "x:v" and standard["description"] == "T (V 2020)"
    assert standard["licenses"] == "MIT" and standard["version"] == inputs.hash[:12]
    assert standard["base.name"] == "debian:12" and standard["base.digest"] == BASE.digest
    assert standard["source"] == "", "not that of the base"
    assert "reprokit.forced" not in labels(target_of("x"), inputs, [])


@pytest.mark.parametrize(
    ("cuda", "driver"),
    [
        ("11.8", "450.80.02"),
        ("11.8.0", "450.80.02"),
        ("11", "450.80.02"),
        ("10.2", "440.33.01"),
        ("99.1", ""),
        (None, ""),
    ],
)
def test_the_lowest_driver_of_a_cuda(cuda: str | None, driver: str):
    assert minimum_driver(cuda) == driver
