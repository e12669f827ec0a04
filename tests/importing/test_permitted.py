"""What a repair may change, by the path and the value of the change."""

from __future__ import annotations

import pytest

from reprokit.importing.permitted import RecipeChange, permitted
from reprokit.recipe.model import Variant
from tests.support.repairs import VARIANT


@pytest.mark.parametrize(
    ("path", "value", "found"),
    [
        ("apt/-", "libgl1", "apt: libgl1"),
        ("wheels/-", "pyyaml", "wheels: pyyaml"),
        ("wheels/-", "protobuf<3.21", "wheels: protobuf<3.21"),
        ("pins/gcc", "11", "pins/gcc: 11"),
        ("pins/numpy", "1.23.5", "wheels: numpy==1.23.5"),
        ("pins/cmake", "3.31", "wheels: cmake==3.31.*"),
        ("pins/tokenizers", "0.13.3", "wheels: tokenizers==0.13.3"),
        ("pins/torchaudio", "2.1.0+cu118", "wheels: torchaudio==2.1.0+cu118"),
        ("pins/xformers", "0.0.22.post1", "wheels: xformers==0.0.22.post1"),
        ("sources/0/submodules", True, "sources/0/submodules: True"),
        ("build_args/MAX_JOBS", "3", "build_args/MAX_JOBS: 3"),
    ],
)
def test_packages_pins_submodules_and_jobs_are_permitted(path, value, found):
    change = permitted({"op": "add", "path": f"/variants/*/{path}", "value": value}, VARIANT)
    assert isinstance(change, RecipeChange) and str(change) == found


@pytest.mark.parametrize(
    ("path", "value", "why"),
    [
        ("apt/-", "git", "has it already"),
        ("wheels/-", "numpy", "has 1.26.4 already"),
        ("pins/llvm", "10", "needs a block"),
        ("pins/python", "3.9", "another base"),
        ("pins/gcc", "12", "has it already"),
        ("pins/python", None, "the choice is yours"),
    ],
)
def test_what_changes_nothing_or_needs_a_person_is_left(path, value, why):
    found = permitted({"op": "replace", "path": f"/variants/*/{path}", "value": value}, VARIANT)
    assert isinstance(found, str) and why in found


def test_the_project_itself_is_not_added():
    """As where its tests do not find its compiled modules."""
    blocks = [{"extension_package": {"source": "t", "package": "My-Tool"}}, {"imports": {"modules": ["tool_core"]}}]
    variant = Variant.model_validate({**VARIANT.model_dump(exclude={"blocks"}), "blocks": blocks})
    for name in ("my_tool", "tool-core"):
        change = {"op": "add", "path": "/variants/*/wheels/-", "value": name}
        assert permitted(change, variant) == f"add {name}: it is the project itself"
        assert isinstance(permitted(change, VARIANT), RecipeChange)
