"""A workspace and a recipe in a bundle."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from pathlib import Path

import pytest
import zstandard

from reprokit.bundle.model import METADATA, Metadata
from tests.support.exporting import contents, export
from tests.support.images import Images, noise

RECIPE = """\
name: bundled
paper: {title: A paper, venue: none, year: 2026, licence: none}
variants:
  cpu: {base: "debian:12", pins: {python: "3.11"}, blocks: [python]}
"""


@pytest.fixture
def here(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a recipe and its workspace."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "bundled.yaml").write_text(RECIPE)
    workspace = tmp_path / "workspaces" / "bundled"
    (workspace / "src" / "__pycache__").mkdir(parents=True)
    (workspace / "src" / "a.py").write_text("print(1)\n")
    (workspace / "src" / "tool").write_text("#!/bin/sh\n")
    (workspace / "src" / "tool").chmod(0o755)
    (workspace / "src" / "__pycache__" / "a.pyc").write_bytes(b"x")
    (workspace / "link").symlink_to("src/a.py")
    os.link(workspace / "src" / "a.py", workspace / "same.py")
    os.mkfifo(workspace / "pipe")
    return tmp_path


@pytest.fixture(scope="module")
def image(images: Images) -> str:
    labels = {"recipe": "bundled", "variant": "cpu", "inputs": "ab", "pins": '{"python": "3.11"}'}
    labels["min-driver"] = "450.36"
    lines = " ".join(f"reprokit.{key}={json.dumps(value)}" for key, value in labels.items())
    return images.base("recipe", {"a": noise(1 << 16, 3)}, [f"LABEL {lines}"])


def test_a_workspace_is_packed_without_owners_beside_labels_and_recipe(here: Path, image: str) -> None:
    out = here / "x.rkit"
    export(image, "-o", str(out), "--with-workspace")
    entries = contents(out)
    metadata = Metadata.model_validate_json(entries[METADATA])
    (part,) = metadata.parts
    content = entries[part.path]
    assert (part.kind, part.name, part.path) == ("workspace", "bundled", "workspaces/bundled.tar.zst")
    assert (part.digest, part.size) == (f"sha256:{hashlib.sha256(content).hexdigest()}", len(content))
    plain = zstandard.ZstdDecompressor().decompressobj().decompress(content)
    with tarfile.open(fileobj=io.BytesIO(plain)) as tar:
        members = {member.name: member for member in tar}
        assert tar.extractfile("same.py").read() == b"print(1)\n"  # type: ignore[union-attr]
    assert set(members) == {"src", "src/a.py", "src/tool", "link", "same.py"}
    assert {(m.uid, m.gid, m.uname, m.gname) for m in members.values()} == {(0, 0, "", "")}
    assert members["link"].linkname == "src/a.py" and members["src/tool"].mode == 0o755
    (described,) = metadata.images
    assert (described.recipe, described.variant, described.inputs) == ("bundled", "cpu", "ab")
    assert (described.pins, described.min_driver) == ({"python": "3.11"}, "450.36")
    assert (described.recipe_text, described.lock_text) == (RECIPE, "")
    assert described.size > described.packed > 0


def test_a_missing_workspace_lock_or_recipe_is_reported(here: Path, image: str) -> None:
    (here / "workspaces" / "bundled").rename(here / "moved")
    out = here / "x.rkit"
    assert "bundled has no workspace yet" in export(image, "-o", str(out), "--with-workspace", code=2).stderr
    assert "bundled has no lock" in export(image, "-o", str(out), "--with-store", code=2).stderr
    assert not list(here.glob("*x.rkit*"))
    (here / "recipes" / "bundled.yaml").unlink()
    assert "the recipe bundled is not here" in export(image, "-o", str(out)).stderr
