"""Names of images in registries."""

from __future__ import annotations

from pathlib import Path

import pytest

from reprokit.errors import UsageError
from reprokit.nodes.image_reference import ImageReference, of_recipe, parse

DIGEST = "sha256:" + "0a" * 32
RECIPE = """\
name: mine
paper: {title: T, venue: V, year: 2024, licence: none}
default: gpu
variants:
  cpu: {base: "debian:12"}
  gpu: {base: "debian:12"}
"""


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("lab:5000/mine", ImageReference("lab:5000", "lab:5000/mine", "mine")),
        ("localhost/mine:cpu", ImageReference("localhost", "localhost/mine", "mine", "cpu")),
        ("r.lab/a/b/mine:cpu", ImageReference("r.lab", "r.lab/a/b/mine", "mine", "cpu")),
        ("docker.io/ana/mine", ImageReference("docker.io", "docker.io/ana/mine", "mine")),
        (f"[::1]:5000/mine@{DIGEST}", ImageReference("[::1]:5000", "[::1]:5000/mine", "mine", "", DIGEST)),
        (f"lab:5000/fused-attention:cpu@{DIGEST}",
         ImageReference("lab:5000", "lab:5000/fused-attention", "fused-attention", "cpu", DIGEST)),
    ],
)  # fmt: skip
def test_names(text: str, found: ImageReference):
    assert parse(text) == found


@pytest.mark.parametrize(
    "text",
    ["mine", "mine:cpu", "ana/mine", "lab:5000/", "lab:5000/Mine", "lab:5000/mine@sha256:12", "https://lab:5000/mine",
     "lab:5000/../mine", "lab:5000/mine:cpu:2", "lab:5000/mine --all", ""],
)  # fmt: skip
def test_invalid_references(text: str):
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert "REGISTRY/NAME" in caught.value.hint


def test_a_missing_registry_is_named_in_the_hint():
    with pytest.raises(UsageError) as caught:
        parse("ana/mine")
    assert "docker.io/ana/mine" in caught.value.hint


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "mine.yaml").write_text(RECIPE)
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("recipe")
def test_a_known_recipe_has_a_default_variant():
    assert of_recipe("lab:5000/mine")[0].named == "lab:5000/mine:gpu"
    assert of_recipe("lab:5000/mine:cpu")[0].named == "lab:5000/mine:cpu"
    with pytest.raises(UsageError, match="no variant 'cpx'"):
        of_recipe("lab:5000/mine:cpx")


@pytest.mark.usefixtures("recipe")
def test_an_unknown_recipe_needs_its_variant_or_digest():
    assert of_recipe("lab:5000/theirs:cpu") == (parse("lab:5000/theirs:cpu"), None)
    assert of_recipe(f"lab:5000/theirs@{DIGEST}") == (parse(f"lab:5000/theirs@{DIGEST}"), None)
    with pytest.raises(UsageError, match="give the variant"):
        of_recipe("lab:5000/theirs")
