"""The pages that users read: every link leads somewhere, and nothing is missing from a list."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from reprokit.results.record import Record
from reprokit.untrusted import toml
from reprokit.verbs import VERBS
from tests.support.paths import ROOT
from tests.support.verbs import run_verb

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


def test_the_readme_shows_what_its_command_prints() -> None:
    shown = re.search(r"```console\n\$ reprokit (.*)\n(?s:(.*?))```", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert shown and run_verb(*shlex.split(shown[1])).stdout == shown[2]


def test_messages_point_to_pages_that_are_shipped() -> None:
    """An installed reprokit has no docs/: messages name `reprokit help TOPIC`, and the topic exists."""
    files = [path for ending in ("py", "yaml", "j2") for path in (ROOT / "reprokit").rglob(f"*.{ending}")]
    files = [path for path in files if path.name not in ("sources.yaml", "torch.yaml", "readme.py")]
    texts = {
        path: re.sub(r'""".*?"""|^#.*$', "", path.read_text(encoding="utf-8"), flags=re.S | re.M) for path in files
    }
    assert [str(path) for path, text in texts.items() if re.search(r"docs/\w+\.md", text)] == []
    named = {topic for text in texts.values() for topic in re.findall(r"`reprokit help (\w[\w-]*)`", text)}
    assert named and [topic for topic in named if not (DOCS / f"{topic}.md").exists()] == []
    start = (ROOT / "reprokit/config/start.yaml").read_text(encoding="utf-8")
    assert "docs/" not in start


def test_pages_agree_on_the_engine_and_the_installation() -> None:
    pages = {page.name: page.read_text(encoding="utf-8") for page in [*PAGES, DOCS / "github-actions.yml"]}
    assert [name for name, text in pages.items() if re.search(r"pip install ['\"]?reprokit\b", text)] == []
    # Of any mode: no page asks for one.
    assert [name for name, text in pages.items() if re.search(r"needs? a rootful|Docker Engine, rootful", text)] == []


def test_the_page_on_attention_leads_with_what_does_not_hold() -> None:
    table = (DOCS / "attention.md").read_text(encoding="utf-8").partition("| requirement |")[2].partition("\n\n")[0]
    fails = [int(re.match(r"\d+", row.split("|")[3].strip())[0]) for row in table.splitlines()[2:]]  # type: ignore[index]
    verdict = (DOCS / "attention/verdict.md").read_text(encoding="utf-8").partition("\n\n## ")[0]
    judged = [int(row.split("|")[4]) for row in verdict.splitlines() if re.search(r"\| +\d+ +\|", row)]
    assert sorted(fails) == sorted(judged) and all(fails[: sum(map(bool, fails))])


def test_the_readme_lists_every_verb() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = "".join(re.findall(r"^\| (`.*?) \|", readme, re.MULTILINE))
    assert [verb for verb in VERBS if f"`{verb}`" not in rows] == []


def test_the_page_on_results_has_every_field_of_a_record() -> None:
    page = (DOCS / "results.md").read_text(encoding="utf-8").partition("## Reference: a record")[2]
    assert [name for name in Record.__annotations__ if f"`{name}`" not in page] == []


def test_the_map_has_the_layers_of_the_import_contract() -> None:
    settings = toml.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"].get("importlinter", {})
    table = (
        (DOCS / "architecture.md").read_text(encoding="utf-8").partition("| in `reprokit/` |")[2].partition("\n\n")[0]
    )
    shown = [re.findall(r"`(\w+)(?:/|\.py)`", row) for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)]
    for contract in settings.get("contracts", []):
        if contract["type"] == "layers":
            layers = [layer.strip("()").split(" : ") for layer in contract["layers"] if layer != "__main__"]
            assert shown == layers
