"""The pages of the reference are those of today's schema."""

from __future__ import annotations

import pytest

from reprokit.recipe.blocks import block_names
from reprokit.recipe.model import Recipe, Variant
from reprokit.recipe.pin_names import PIN_NAMES
from tests.support.paths import ROOT
from tests.support.reference import blocks_page, fields_page


@pytest.mark.parametrize(("name", "page"), [("fields", fields_page), ("blocks", blocks_page)])
def test_the_page_is_made_of_the_schema(request, name, page):
    file = ROOT / "docs" / f"{name}.md"
    if request.config.getoption("--update-golden"):
        file.write_text(page(), encoding="utf-8")
    assert file.read_text(encoding="utf-8") == page(), "run pytest tests/setup/test_reference.py --update-golden"


@pytest.mark.slow
def test_every_field_pin_and_block_is_there():
    fields = [field.alias or name for model in (Recipe, Variant) for name, field in model.model_fields.items()]
    assert [name for name in (*fields, *PIN_NAMES) if f"`{name}`" not in fields_page()] == []
    assert [name for name in block_names() if f"\n## {name}\n" not in blocks_page()] == []
