"""The pages of the reference are those of today's schema."""

from __future__ import annotations

import pytest

from reprokit.recipe.blocks import block_names
from reprokit.recipe.model import Recipe, Variant
from reprokit.recipe.pin_names import PIN_NAMES
from tests.support.paths import ROOT
from tests.support.reference import blocks_page, fields_page

FIELDS = [field.alias or name for model in (Recipe, Variant) for name, field in model.model_fields.items()]


@pytest.mark.parametrize(
    ("name", "made", "parts"),
    [
        ("fields", fields_page, [f"`{name}`" for name in (*FIELDS, *PIN_NAMES)]),
        ("blocks", blocks_page, [f"\n## {name}\n" for name in block_names()]),
    ],
)
def test_the_page_is_made_of_the_schema(request, name, made, parts):
    file, page = ROOT / "docs" / f"{name}.md", made()
    if request.config.getoption("--update-golden"):
        file.write_text(page, encoding="utf-8")
    assert file.read_text(encoding="utf-8") == page, "run pytest tests/setup/test_reference.py --update-golden"
    assert [part for part in parts if part not in page] == []
