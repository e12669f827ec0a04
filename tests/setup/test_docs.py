"""The pages that users read: every link leads somewhere, and nothing is missing from a list."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import tomli

from reprokit.bench.record import Record
from reprokit.cli import VERBS
from reprokit.image.blocks import block_names
from reprokit.recipe.fields import PIN_NAMES
from reprokit.recipe.model import Recipe, Variant
from tests.support.paths import ROOT

DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.glob("*.md")])


def anchors(page: str) -> set[str]:
    """The addresses of the headings of a page, as forges make them."""
    headings = re.findall(r"^#+ (.*)$", page, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def broken(page: Path) -> list[str]:
    text = page.read_text(encoding="utf-8")
    found = []
    for link, target, _, anchor in re.findall(r"(\]\((?!https?:)([^)#\s]*)(#([^)\s]*))?\))", text):
        file = page.parent / target if target else page
        if not file.exists() or (anchor and anchor not in anchors(file.read_text(encoding="utf-8"))):
            found.append(link)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    assert broken(page) == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "there.md").write_text("# Two words\n")
    (tmp_path / "page.md").write_text("[a](there.md#two-words) [b](there.md#three) [c](gone.md) [d](https://x.org/e)\n")
    assert broken(tmp_path / "page.md") == ["](there.md#three)", "](gone.md)"]


def test_the_index_lists_every_page() -> None:
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    assert [page.name for page in DOCS.glob("*.md") if page.name != "index.md" and f"({page.name})" not in index] == []


def test_the_readme_lists_every_verb() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = "".join(re.findall(r"^\| (`.*?) \|", readme, re.MULTILINE))
    assert [verb for verb in VERBS if f"`{verb}`" not in rows] == []


def test_the_page_on_recipes_has_every_field_pin_and_block() -> None:
    page = (DOCS / "recipes.md").read_text(encoding="utf-8")
    fields = [field.alias or name for model in (Recipe, Variant) for name, field in model.model_fields.items()]
    assert [name for name in (*fields, *PIN_NAMES, *block_names()) if f"`{name}`" not in page] == []


def test_the_page_on_benchmarks_has_every_field_of_a_record() -> None:
    page = (DOCS / "benchmarks.md").read_text(encoding="utf-8").partition("## Reference: a record")[2]
    assert [name for name in Record.__annotations__ if f"`{name}`" not in page] == []


def test_the_map_has_the_layers_of_the_import_contract() -> None:
    settings = tomli.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"].get("importlinter", {})
    table = (
        (DOCS / "architecture.md").read_text(encoding="utf-8").partition("| in `reprokit/` |")[2].partition("\n\n")[0]
    )
    shown = [re.findall(r"`(\w+)(?:/|\.py)`", row) for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)]
    for contract in settings.get("contracts", []):
        if contract["type"] == "layers":
            layers = [layer.strip("()").split(" : ") for layer in contract["layers"] if layer != "__main__"]
            assert shown == layers
