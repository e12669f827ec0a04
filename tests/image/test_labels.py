"""Labels of an image."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from reprokit.host.fit import ImageNeeds
from reprokit.image.base.resolve import BaseImage
from reprokit.image.classic import label_line
from reprokit.image.inputs import Inputs
from reprokit.image.labels import ImageLabels, labels, minimum_driver
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


@pytest.mark.parametrize("forced", [[], ["cuda with gpu: no"]])
def test_labels_are_read_as_they_were_written(forced):
    inputs = Inputs(rendered("FROM x\n"), BASE, ServedSet())
    target = target_of("x")
    found = ImageLabels.read(labels(target, inputs, forced))
    assert (found.recipe, found.variant, found.target) == ("x", "v", "x:v")
    assert (found.inputs, found.dockerfile) == (inputs.hash, inputs.rendered.digest)
    assert (found.lock, found.forced) == ("", bool(forced))
    assert found.needs == ImageNeeds(target.variant.pins, "450.80.02", ("8.0",))


def test_labels_of_a_stranger_are_read():
    written = {"reprokit.pins": '{"cuda": "11.8", "torch": 2}', "reprokit.compute-capabilities": "7.0,8"}
    found = ImageLabels.read(written)
    assert found.needs == ImageNeeds({"cuda": "11.8", "torch": "2"}, "", ("7.0", "8"))
    for text in ("", "[", "[1]", "3", "{" * 5000, f"[{'1,' * 300_000}1]"):
        assert ImageLabels.read({"reprokit.pins": text}) == ImageLabels.read({})


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


def test_a_copied_title_is_written_without_its_special_spaces():
    target = target_of("x")
    paper = target.recipe.paper.model_copy(update={"title": "Fast\u00a0GNN\u00ad training"})
    target = replace(target, recipe=target.recipe.model_copy(update={"paper": paper}))
    found = labels(target, Inputs(rendered("FROM x\n"), BASE, ServedSet()), [])
    assert found["org.opencontainers.image.description"] == "Fast GNN training (V 2020)"
    assert "Fast GNN training" in label_line(found)


def test_a_drifted_image_is_known_by_its_label():
    inputs = Inputs(rendered("FROM x\n"), BASE, ServedSet())
    for drift in ((), ("tree 1 -> 2",)):
        written = labels(target_of("x"), replace(inputs, drift=drift), [])
        assert ImageLabels.read(written).drift == bool(drift)
