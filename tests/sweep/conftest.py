from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.sweeps import RECIPE


@pytest.fixture
def x(recipes: Path) -> Path:
    """The recipe x, and the folder in which the user stands."""
    (recipes / "x.yaml").write_text(RECIPE)
    return recipes.parent
