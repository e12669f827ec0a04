"""From a repository to a recipe, if torch's own index can be reached and if it cannot."""

from __future__ import annotations

import re

import pytest

from reprokit.compat.facts import bundled
from reprokit.importing.recipe_of import recipe_of
from reprokit.importing.tree import moment_of
from reprokit.recipe.load import load_text
from reprokit.supply.mirrors import Mirrors
from reprokit.supply.store import Store
from tests.support.json_index import Index

TORCH_INDEX = "https://download.pytorch.org/whl/cu118"


@pytest.fixture
def imported(index: Index, mirrors: Mirrors, folder):
    """Import files; returns the recipe with the version of torch and the wheels of its kin."""
    index.releases("torch 2.7.0 2025-04-23; torchvision 0.22.0 2025-04-23 needs torch==2.7.0")

    def run(files: dict[str, str]):
        moment = moment_of("2025-06-01", None, "")
        recipe = recipe_of("tool", folder(files), moment, mirrors, bundled())
        variant = load_text(recipe.text, "recipes/tool.yaml", "tool").variants["cpu"]
        return recipe, variant.pins["torch"], [str(entry) for entry in variant.wheels if "torch" in str(entry)]

    return run


@pytest.mark.slow
def test_builds_of_an_index_that_cannot_be_reached_become_pypis(imported, store: Store):
    store.lost.lose(TORCH_INDEX, "Connection refused")
    lines = f"--extra-index-url {TORCH_INDEX}\ntorch==2.7.0+cu118\ntorchvision==0.22.0+cu118\n"
    recipe, torch, wheels = imported({"requirements.txt": lines})
    assert torch == "2.7.0" and wheels == ["torchvision==0.22.0"]
    assert {question.text for question in recipe.versions.questions} >= {
        f"{TORCH_INDEX} cannot be reached; the same releases are taken from other indexes: torchvision==0.22.0+cu118",
        "torch 2.7.0 is PyPI's build for CUDA 12.6: the index of cu118 cannot be reached (Connection refused); "
        "with a mirror in REPROKIT_WHEELS_MIRRORS, import again",
    }
    assert re.search(r"torch:\s+cuda: .?12\.6", recipe.text)


@pytest.mark.slow
@pytest.mark.parametrize(("reached", "expected"), [(True, "2.7.0+cu118"), (False, "2.7.0")])
def test_the_stated_cuda_counts_if_its_index_can_be_reached(imported, store: Store, reached: bool, expected: str):
    if reached:
        store.lost.answered(TORCH_INDEX)
    else:
        store.lost.lose(TORCH_INDEX, "Connection refused")
    image = "FROM nvidia/cuda:11.8.0-devel-ubuntu22.04\n"
    recipe, torch, _ = imported({"requirements.txt": "torch==2.7.0\n", "Dockerfile": image})
    assert torch == expected and (TORCH_INDEX in recipe.text) is reached
