"""Recipes from text."""

from __future__ import annotations

import pytest

from reprokit.recipe.load import load_text

HEAD = """\
name: paper
paper: {title: A Paper, venue: Venue, year: 2020, licence: MIT}
"""


@pytest.fixture
def load():
    """`load(text)` reads a recipe called `paper` whose first two lines are its name and paper."""
    return lambda text, name="paper": load_text(HEAD + text, "paper.yaml", name)
