from __future__ import annotations

import pytest

from reprokit.errors import UsageError
from reprokit.importing.edits import changed
from reprokit.recipe.load import load_text

RECIPE = """\
name: tool  # a comment
paper: {title: T, venue: V, year: 2020, licence: none}
variants:
  cpu:
    # why this base
    base: debian:12
    pins: {distro: "debian:12", python: "3.11"}
    apt:
      - git  # Dockerfile:3
    blocks: [apt, python]
"""


def test_changes_of_an_explanation_keep_the_comments():
    changes = [
        {"op": "add", "path": "/variants/*/apt/-", "value": "libgl1"},
        {"op": "add", "path": "/variants/*/apt/-", "value": "libgl1"},
        {"op": "replace", "path": "/variants/*/pins/python", "value": "3.9"},
        {"op": "add", "path": "/variants/*/wheels/-", "value": "numpy==1.26.4"},
        {"op": "add", "path": "/variants/*/env/MAX_JOBS", "value": "1"},
        {"op": "remove", "path": "/variants/*/pins/distro"},
    ]
    text = changed(RECIPE, "cpu", changes)
    variant = load_text(text, "tool.yaml", "tool").variants["cpu"]
    assert variant.apt == ["git", "libgl1"] and variant.pins == {"python": "3.9"}
    assert variant.wheels == ["numpy==1.26.4"] and variant.env == {"MAX_JOBS": "1"}
    for comment in ("# a comment", "# why this base", "# Dockerfile:3"):
        assert comment in text


def test_a_change_of_what_the_recipe_lacks_is_refused():
    with pytest.raises(UsageError, match="variants/gpu/pins/cuda"):
        changed(RECIPE, "gpu", [{"op": "replace", "path": "/variants/*/pins/cuda", "value": "11.8"}])


def test_a_new_key_leaves_the_comment_of_the_next_one_in_its_place():
    text = "variants:\n  v:\n    base: debian:12\n    requires:\n      gpu: none\n# The files run: make\nsmoke: []\n"
    found = changed(text, "v", [{"op": "add", "path": "/variants/*/apt/-", "value": "libfoo"}], "why")
    assert found.endswith("    requires:\n      gpu: none\n# The files run: make\nsmoke: []\n")
    assert "    apt:\n      - libfoo  # why\n" in found
