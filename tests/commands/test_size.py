"""`reprokit size`: blocks, shared layers and what would go, of images made by hand."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from reprokit.engine import Engine
from reprokit.errors import UsageError
from tests.support.builds import root_file_system
from tests.support.images import tar_of
from tests.support.names import unique

pytestmark = pytest.mark.engine

RECIPE = "name: {name}\npaper: {{title: T, venue: V, year: 2020, licence: MIT}}\nvariants:\n  v: {{base: debian:12}}\n"
ASSERT = "RUN : reprokit: block {block}: expected; head -c {count} /dev/zero > /{block}\n"


@pytest.fixture
def images(call, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The labels of two recipes, whose images share a base and the block torch."""
    base, labels = unique("size-base"), []
    engine.import_image(io.BytesIO(root_file_system()), base, "1", ["ENV PATH=/bin"])
    for own, count in (("git", 300_000), ("apt", 400_000)):
        name = unique("size").lower()
        (tmp_path / f"{name}.yaml").write_text(RECIPE.format(name=name))
        labels.append(f"{name}:v")
        text = f"FROM {base}:1\n" + ASSERT.format(block="torch", count=500_000) + ASSERT.format(block=own, count=count)
        context = io.BytesIO(tar_of({"Dockerfile": text.encode()}))
        events = list(engine.build(context, tag=f"reprokit/{labels[-1]}", rm=True))
        assert not [event for event in events if "error" in event]
    monkeypatch.setenv("REPROKIT_RECIPES", str(tmp_path))
    yield labels
    for image in (*(f"reprokit/{label}" for label in labels), f"{base}:1"):
        engine.remove_image(image, force=True)


def test_blocks_shared_layers_and_what_would_go(images: list[str], call, tmp_path: Path):
    one, two = images
    picture = tmp_path / "sizes.svg"
    found = json.loads(call("size", one, two, "--json", "--plot", str(picture)).stdout)
    first, second = found["images"][one], found["images"][two]
    assert first["blocks"]["git"] == 300_000 and second["blocks"]["apt"] == 400_000
    assert first["blocks"]["torch"] == second["blocks"]["torch"] > 500_000
    assert first["shared"] == {two: first["size"] - 300_000}
    assert (first["freed"], second["freed"]) == (300_000, 400_000)
    assert "prune" not in call("size", one).stdout
    assert found["together"] == first["size"] + 400_000
    assert "in another image too" in picture.read_text()
    text = call("size", one, two, one).stdout
    assert "freed by removing it" in text and f"shared with {one}" in text and "together" in text
    assert call("size", one).stdout.count("shared with") == 0


def test_what_a_stage_without_a_name_holds_is_shown_apart(images: list[str], engine: Engine, call):
    one, _ = images
    text = f'FROM reprokit/{one}\nCMD ["x"]\n'
    (*_, last) = engine.build(
        io.BytesIO(tar_of({"Dockerfile": text.encode()})), tag=(stage := unique("stage")), rm=True
    )
    stage_id = engine.image(stage)["Id"]
    # The name goes to another image, so that the stage stays without one.
    engine.tag(f"reprokit/{one}", stage, "latest")
    try:
        found = json.loads(call("size", one, "--json").stdout)["images"][one]
        assert (found["freed"], found["untagged"]) == (0, 300_000), last
        assert "then by `docker image prune`" in call("size", one).stdout
    finally:
        engine.remove_image(f"{stage}:latest")
        engine.remove_image(stage_id)


def test_an_image_that_is_not_here_is_named_with_the_remedy(engine: Engine, call):
    error = call("size", "fused-attention:cuda-debian11").exception
    assert isinstance(error, UsageError) and "has no image on this engine" in error.message
    assert error.hint == "build it: `reprokit build fused-attention:cuda-debian11`"
