"""What images and workspaces take, and removing them: `clean`, `images`, `size`."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from reprokit import paths
from reprokit.engine import Engine
from reprokit.errors import UsageError
from reprokit.host import workspace
from reprokit.image import trust
from reprokit.recipe.find import recipe_files
from tests.support.builds import root_file_system
from tests.support.images import built, tar_of
from tests.support.names import unique

RECIPE = "name: {name}\npaper: {{title: T, venue: V, year: 2020, licence: MIT}}\nvariants:\n  v: {{base: debian:12}}\n"
ASSERT = "RUN : reprokit: block {block}: expected; head -c {count} /dev/zero > /{block}\n"


@pytest.mark.engine
def test_clean_shows_confirms_and_removes_but_nothing_of_the_users(call, error):
    """A copy of a bundled workspace, below a home of the test's own."""
    original, copy = paths.bundled_workspace("taco"), workspace.locate("taco", recipe_files()["taco"])
    copy.parent.mkdir(parents=True)
    workspace.copy(original, copy)
    (row,) = json.loads(call("clean", "--dry-run", "--json").stdout)["leftovers"]
    assert row["kind"] == "workspace" and row["name"] == str(copy) and row["bytes"] > 0
    assert "--yes" in error(UsageError, "clean").hint
    assert str(copy.name) in call("clean").stdout and copy.exists()

    def kept() -> bool:
        return call("clean", "--yes").stdout.splitlines()[-1] == "nothing to remove" and copy.exists()

    (copy / "results.txt").write_text("mine")
    assert kept()
    (copy / "results.txt").unlink()
    file = next(path for path in copy.rglob("*") if path.is_file())
    text = file.read_bytes()
    file.write_bytes(text + b"\n")
    assert kept()
    file.unlink()
    file.symlink_to("/etc/passwd")
    assert kept()
    file.unlink()
    file.write_bytes(text)
    (copy / "build").mkdir()
    (copy / "build" / "made.o").write_text("made again by a build")
    assert "removed: 1, " in call("clean", "--yes").stdout and not copy.exists()
    assert call("clean").stdout.splitlines()[-1] == "nothing to remove"


def test_images_lists_where_an_image_comes_from(call, engine, monkeypatch):
    name = f"reprokit/{unique('listed')}"
    image = engine.import_image(io.BytesIO(tar_of({"x": name.encode()})), name, "v", [])
    try:
        (row,) = [row for row in json.loads(call("images", "--json").stdout) if row["name"] == f"{name}:v"]
        assert row["state"] == "unverified" and row["id"] == image and row["containers"] == 0
        trust.record(engine, image, "built here", "build")
        monkeypatch.setattr("reprokit.tables.width", lambda *_: 85)  # the names of recipes are shorter
        row = re.compile(rf"{name.removeprefix('reprokit/')}:v +\S+ +[0-9.]+ k?B  +today  built")
        lines = call("images").stdout.splitlines()
        assert any(map(row.match, lines)), lines
    finally:
        engine.remove_image(f"{name}:v")


@pytest.fixture
def labels(call, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The labels of two recipes, whose images share a base and the block torch."""
    base, labels = unique("size-base"), []
    engine.import_image(io.BytesIO(root_file_system()), base, "1", ["ENV PATH=/bin"])
    for own, count in (("git", 300_000), ("apt", 400_000)):
        name = unique("size").lower()
        (tmp_path / f"{name}.yaml").write_text(RECIPE.format(name=name))
        labels.append(f"{name}:v")
        text = f"FROM {base}:1\n" + ASSERT.format(block="torch", count=500_000) + ASSERT.format(block=own, count=count)
        built(engine, text, tag=f"reprokit/{labels[-1]}", nocache=False)  # the second has the first's layers
    monkeypatch.setenv("REPROKIT_RECIPES", str(tmp_path))
    yield labels
    for image in (*(f"reprokit/{label}" for label in labels), f"{base}:1"):
        engine.remove_image(image, force=True)


def test_size_of_blocks_shared_layers_and_what_removing_frees(labels, call, error, engine: Engine, tmp_path: Path):
    one, two = labels
    picture = tmp_path / "sizes.svg"
    sizes = json.loads(call("images", "size", one, two, "--json", "--plot", str(picture)).stdout)
    first, second = sizes["images"][one], sizes["images"][two]
    assert first["blocks"]["git"] == 300_000 and second["blocks"]["apt"] == 400_000
    assert first["blocks"]["torch"] == second["blocks"]["torch"] > 500_000
    assert first["shared"] == {two: first["size"] - 300_000}
    assert (first["freed"], second["freed"]) == (300_000, 400_000)
    assert sizes["together"] == first["size"] + 400_000
    assert "in another image too" in picture.read_text()
    text = call("images", "size", one, two, one).stdout
    assert "freed by removing it" in text and f"shared with {one}" in text and "together" in text
    text = call("images", "size", one).stdout
    assert "shared with" not in text and "prune" not in text
    missing = error(UsageError, "images", "size", "fused-attention:cuda-debian11")
    assert "has no image on this engine" in missing.message
    assert missing.hint == "build it: `reprokit build fused-attention:cuda-debian11`"

    # The name of a stage goes to another image, so that the stage stays without one and holds the layers.
    stage = unique("stage")
    stage_id = built(engine, f'FROM reprokit/{one}\nCMD ["x"]\n', tag=stage)
    engine.tag(f"reprokit/{one}", stage, "latest")
    try:
        size = json.loads(call("images", "size", one, "--json").stdout)["images"][one]
        assert (size["freed"], size["untagged"]) == (0, 300_000)
        assert "then by `docker image prune`" in call("images", "size", one).stdout
    finally:
        engine.remove_image(f"{stage}:latest")
        engine.remove_image(stage_id)
