from __future__ import annotations

import io
import json
import re

import pytest

from reprokit import paths
from reprokit.errors import UsageError
from reprokit.host import workspace
from reprokit.image import trust
from reprokit.recipe.find import recipe_files
from tests.support.images import tar_of
from tests.support.names import unique

pytestmark = pytest.mark.engine


@pytest.fixture
def copied(tmp_path, monkeypatch, engine):
    """A copy of a bundled workspace, below a home of the test's own."""
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path / "home"))
    original = paths.bundled_workspace("taco")
    folder = workspace.locate("taco", recipe_files()["taco"])
    folder.parent.mkdir(parents=True)
    workspace.copy(original, folder)
    return folder


def test_clean_shows_asks_and_removes(call, copied):
    (shown,) = json.loads(call("clean", "--dry-run", "--json").stdout)["leftovers"]
    assert shown["kind"] == "workspace" and shown["name"] == str(copied) and shown["bytes"] > 0
    refused = call("clean")
    assert isinstance(refused.exception, UsageError) and "--yes" in refused.exception.hint
    assert str(copied.name) in refused.stdout and copied.exists()
    assert "removed: 1, " in call("clean", "--yes").stdout and not copied.exists()
    assert call("clean").stdout.splitlines()[-1] == "nothing to remove"


def test_a_workspace_with_anything_of_the_users_stays(call, copied):
    (copied / "results.txt").write_text("mine")
    assert call("clean", "--yes").stdout.splitlines()[-1] == "nothing to remove" and copied.exists()
    (copied / "results.txt").unlink()
    file = next(path for path in copied.rglob("*") if path.is_file())
    text = file.read_bytes()
    file.write_bytes(text + b"\n")
    assert call("clean", "--yes").stdout.splitlines()[-1] == "nothing to remove"
    file.unlink()
    file.symlink_to("/etc/passwd")
    assert call("clean", "--yes").stdout.splitlines()[-1] == "nothing to remove"
    file.unlink()
    file.write_bytes(text)
    (copied / "build").mkdir()
    (copied / "build" / "made.o").write_text("made again by a build")
    assert "removed: 1, " in call("clean", "--yes").stdout


def test_images_lists_by_what_is_known_of_the_id(call, engine, tmp_path, monkeypatch):
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path / "home"))
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
