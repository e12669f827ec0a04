"""The labels of an image, the hash of its inputs among them, and the platform of its base."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from reprokit.host.fit import ImageNeeds
from reprokit.image.base.resolve import BaseImage
from reprokit.image.inputs import Inputs
from reprokit.image.labels import ImageLabels, labels, minimum_driver
from reprokit.image.request import platform_of
from reprokit.supply.kinds.kind import content_key
from reprokit.supply.kinds.wheels.platform import Platform
from reprokit.supply.lock.model import Distribution, GitCommit
from reprokit.supply.served_set import ServedSet
from tests.support.builds import rendered, target_of

BASE = BaseImage("debian:12", "debian:12", "sha256:" + "1" * 64, "engine", "sha256:" + "2" * 64)
INPUTS = Inputs(rendered("FROM x\n"), BASE, ServedSet())


def test_every_input_changes_the_hash():
    wheel = Distribution(name="six", version="1.16.0", file="six-1.16.0-py3-none-any.whl", sha256="a" * 64, size=1)
    commit = GitCommit(url="https://forge.test/a/b", commit="c" * 40, tree="d" * 40)
    others = [
        replace(INPUTS, rendered=rendered("FROM x\nENV A=1\n")),
        replace(INPUTS, base=BaseImage("debian:12", "debian:12", "sha256:3", "registry")),
        replace(INPUTS, served=ServedSet(wheels=[wheel])),
        replace(INPUTS, served=ServedSet(git=[commit])),
    ]
    assert len({INPUTS.hash, *(inputs.hash for inputs in others)}) == 5
    moved = BaseImage("debian:bookworm", "other:name", BASE.image_id, "mirror x", BASE.digest)
    assert replace(INPUTS, base=moved).hash == INPUTS.hash


def test_only_declared_arguments_are_passed():
    assert INPUTS.arguments == {}
    declaring = rendered("ARG REPROKIT_GIT=https://\nARG REPROKIT_WHEELS=\nFROM x\n")
    arguments = Inputs(declaring, BASE, ServedSet()).arguments
    assert arguments["REPROKIT_GIT"] == "http://git.reprokit.invalid/"
    assert arguments["REPROKIT_WHEELS"] == f"http://wheels.reprokit.invalid/{content_key(())}/simple/"


@pytest.mark.parametrize(
    ("base", "machine", "platform"),
    [
        ("debian:12", "amd64", Platform("3.11", "2.36", "x86_64")),
        ("debian:12", "arm64", Platform("3.11", "2.36", "aarch64")),
        ("nvidia/cuda:11.8.0-devel-ubuntu20.04", "amd64", Platform("3.11", "2.31", "x86_64")),
    ],
)
def test_the_platform_is_that_of_the_base(base: str, machine: str, platform: Platform):
    assert platform_of(target_of("x", base=base), machine) == platform


def test_labels():
    target = target_of("x")
    written = labels(target, INPUTS, ["cuda with gpu: no"])
    assert json.loads(written["reprokit.forced"]) == ["cuda with gpu: no"]
    standard = {key.removeprefix("org.opencontainers.image."): value for key, value in written.items()}
    assert standard["title"] == standard["ref.name"] == "x:v" and standard["description"] == "T (V 2020)"
    assert standard["licenses"] == "MIT" and standard["version"] == INPUTS.hash[:12]
    assert standard["base.name"] == "debian:12" and standard["base.digest"] == BASE.digest
    assert standard["source"] == "", "not that of the base"
    # They are read as they were written.
    needs = ImageNeeds(target.variant.pins, "450.80.02", ("8.0",))
    for forced, drift in (([], ()), (["cuda with gpu: no"], ("tree 1 -> 2",))):
        written = labels(target, replace(INPUTS, drift=drift), forced)
        assert ("reprokit.forced" in written) is bool(forced)
        read = ImageLabels.read(written)
        assert (read.recipe, read.variant, read.target, read.needs) == ("x", "v", "x:v", needs)
        assert (read.inputs, read.dockerfile) == (replace(INPUTS, drift=drift).hash, INPUTS.rendered.digest)
        assert (read.lock, read.forced, read.drift) == ("", bool(forced), bool(drift))


def test_labels_of_a_stranger_are_read():
    written = {"reprokit.pins": '{"cuda": "11.8", "torch": 2}', "reprokit.compute-capabilities": "7.0,8"}
    assert ImageLabels.read(written).needs == ImageNeeds({"cuda": "11.8", "torch": "2"}, "", ("7.0", "8"))
    for text in ("", "[", "[1]", "3", "{" * 5000, f"[{'1,' * 300_000}1]"):
        assert ImageLabels.read({"reprokit.pins": text}) == ImageLabels.read({})


def test_a_copied_title_is_written_without_its_special_spaces():
    target = target_of("x")
    paper = target.recipe.paper.model_copy(update={"title": "Fast\u00a0GNN\u00ad training"})
    target = replace(target, recipe=target.recipe.model_copy(update={"paper": paper}))
    written = labels(target, INPUTS, [])
    assert written["org.opencontainers.image.description"] == "Fast GNN training (V 2020)"


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
