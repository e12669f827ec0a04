"""Names of images in registries."""

from __future__ import annotations

import pytest

from reprokit.errors import UsageError
from reprokit.nodes.registry import ImageReference, of_recipe, parse_reference

DIGEST = "sha256:" + "0a" * 32


@pytest.mark.parametrize(
    ("registry", "path", "recipe", "variant", "digest"),
    [
        ("lab:5000", "/mine", "mine", "", ""),
        ("localhost", "/mine", "mine", "cpu", ""),
        ("r.lab", "/a/b/mine", "mine", "cpu", ""),
        ("docker.io", "/ana/mine", "mine", "", ""),
        ("[::1]:5000", "/mine", "mine", "", DIGEST),
        ("lab:5000", "/fused-attention", "fused-attention", "cpu", DIGEST),
    ],
)
def test_names(registry: str, path: str, recipe: str, variant: str, digest: str):
    text = f"{registry}{path}{variant and f':{variant}'}{digest and f'@{digest}'}"
    assert parse_reference(text) == ImageReference(registry, registry + path, recipe, variant, digest)


def test_invalid_references():
    in_lab = [f"lab:5000/{name}" for name in ("", "Mine", "mine@sha256:12", "../mine", "mine:cpu:2", "mine --all")]
    for text in ("mine", "mine:cpu", "ana/mine", "https://lab:5000/mine", "", *in_lab):
        with pytest.raises(UsageError) as error:
            parse_reference(text)
        assert "REGISTRY/NAME" in error.value.hint
        assert ("docker.io/ana/mine" in error.value.hint) == (text == "ana/mine")


def test_only_a_known_recipe_has_a_default_variant(recipe):
    recipe('  cpu: {base: "debian:12"}\n  gpu: {base: "debian:12"}\n', "default: gpu\n", name="mine")
    assert of_recipe("lab:5000/mine")[0].named == "lab:5000/mine:gpu"
    assert of_recipe("lab:5000/mine:cpu")[0].named == "lab:5000/mine:cpu"
    with pytest.raises(UsageError, match="no variant 'cpx'"):
        of_recipe("lab:5000/mine:cpx")
    assert of_recipe("lab:5000/theirs:cpu") == (parse_reference("lab:5000/theirs:cpu"), None)
    assert of_recipe(f"lab:5000/theirs@{DIGEST}") == (parse_reference(f"lab:5000/theirs@{DIGEST}"), None)
    with pytest.raises(UsageError, match="give the variant"):
        of_recipe("lab:5000/theirs")
