"""From a repository to a recipe, if torch's own index cannot be reached."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reprokit.compat.facts import bundled
from reprokit.config import Configuration
from reprokit.importing.asof import moment_of
from reprokit.importing.recipe_of import ImportedRecipe, recipe_of
from reprokit.importing.tree import FolderTree
from reprokit.recipe.load import load_text
from reprokit.supply.kinds.wheels.pip import PipSettings
from reprokit.supply.mirrors.places import Mirrors
from reprokit.supply.store import Store
from tests.support.fetching import HOSTS
from tests.support.json_index import Index
from tests.support.upstream import Upstream

TORCH_INDEX = "https://download.pytorch.org/whl/cu118"


@pytest.fixture
def imported(store: Store, tmp_path: Path, upstream: Upstream):
    def run(**files: str) -> ImportedRecipe:
        index = Index(upstream, tmp_path / "wheels")
        index.wheel("torch", "2.7.0", "2025-04-23")
        index.wheel("torchvision", "0.22.0", "2025-04-23", requires=("torch==2.7.0",))
        folder = tmp_path / "repository"
        folder.mkdir()
        for name, text in files.items():
            (folder / name.replace("_", ".")).write_text(text)
        pip = PipSettings(index=f"http://127.0.0.1:{upstream.port}/simple/")
        mirrors = Mirrors(store, Configuration(hosts=HOSTS), pip=pip)
        moment = moment_of("2025-06-01", None, "")
        return recipe_of("tool", FolderTree(folder), moment, mirrors, bundled(), lambda line: None)

    return run


def pins(found: ImportedRecipe) -> tuple[dict[str, str], list[str]]:
    variant = load_text(found.text, "recipes/tool.yaml", "tool").variants["cpu"]
    return dict(variant.pins), [str(entry) for entry in variant.wheels if "torch" in str(entry)]


@pytest.mark.slow
def test_builds_of_an_index_that_cannot_be_reached_become_pypis(imported, store: Store):
    store.lost.lose(TORCH_INDEX, "Connection refused")
    lines = f"--extra-index-url {TORCH_INDEX}\ntorch==2.7.0+cu118\ntorchvision==0.22.0+cu118\n"
    found = imported(requirements_txt=lines)
    named, wheels = pins(found)
    assert named["torch"] == "2.7.0" and wheels == ["torchvision==0.22.0"]
    asked = [question.text for question in found.versions.questions]
    assert (
        f"{TORCH_INDEX} cannot be reached; the same releases are taken from other indexes: torchvision==0.22.0+cu118"
        in asked
    )
    assert (
        "torch 2.7.0 is PyPI's build for CUDA 12.6: the index of cu118 cannot be reached (Connection refused); "
        "with a mirror in REPROKIT_WHEELS_MIRRORS, import again"
    ) in asked
    assert re.search(r"torch:\s+cuda: .?12\.6", found.text)


@pytest.mark.slow
@pytest.mark.parametrize(("reached", "torch"), [(True, "2.7.0+cu118"), (False, "2.7.0")])
def test_the_stated_cuda_counts_if_its_index_can_be_reached(imported, store: Store, reached: bool, torch: str):
    if reached:
        store.lost.answered(TORCH_INDEX)
    else:
        store.lost.lose(TORCH_INDEX, "Connection refused")
    found = imported(requirements_txt="torch==2.7.0\n", Dockerfile="FROM nvidia/cuda:11.8.0-devel-ubuntu22.04\n")
    assert pins(found)[0]["torch"] == torch
    assert (TORCH_INDEX in found.text) is reached
