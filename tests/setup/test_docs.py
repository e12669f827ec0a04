"""The pages that users read: links, commands and examples work."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import typer
from typer.testing import CliRunner

from reprokit import cli
from reprokit.image.render import render, template_environment
from reprokit.verbs import VERBS, load_verb
from tests.support.paths import ROOT
from tests.support.rendering import target

DOCS = ROOT / "docs"
PAGES = {page: page.read_text(encoding="utf-8") for page in sorted([*ROOT.glob("*.md"), *DOCS.glob("*.md")])}
README, CONTRIBUTING = (PAGES[ROOT / name] for name in ("README.md", "CONTRIBUTING.md"))


def anchors(page: str) -> set[str]:
    """The addresses of the headings of a page, as forges make them."""
    headings = re.findall(r"^#+ (.*)$", page, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def broken_links(page: Path) -> Iterator[str]:
    links = re.findall(r"(\]\((?!https?:)([^)#\s]*)(#([^)\s]*))?\))", page.read_text(encoding="utf-8"))
    for link, path, _, anchor in links:
        file = page.parent / path if path else page
        if not file.exists() or (anchor and anchor not in anchors(file.read_text(encoding="utf-8"))):
            yield link


def test_every_link_leads_somewhere(tmp_path: Path) -> None:
    assert [f"{page.name}: {link}" for page in PAGES for link in broken_links(page)] == []
    (tmp_path / "there.md").write_text("# Two words\n")
    (tmp_path / "page.md").write_text("[a](there.md#two-words) [b](there.md#three) [c](gone.md) [d](https://x.org/e)\n")
    assert [*broken_links(tmp_path / "page.md")] == ["](there.md#three)", "](gone.md)"]


def wrong_commands(page: str) -> Iterator[str]:
    """The commands of a page's blocks of code whose verb or option does not exist."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    shown = "".join(text for language, text in blocks if language in ("", "console", "sh", "bash"))
    start = r"^(?:\$ )?(?:\.venv/bin/)?reprokit ([a-z][^#|;&>\n]*)"
    for line in re.findall(start, shown.replace("\\\n", " "), re.MULTILINE):
        verb, *words = line.partition(" -- ")[0].split()
        command = load_verb(verb) if verb in VERBS else None
        command = getattr(command, "commands", {}).get(words[0] if words else "", command)
        names = {name for each in getattr(command, "params", []) for name in (*each.opts, *each.secondary_opts)}
        if verb not in VERBS or {word.partition("=")[0] for word in words if word.startswith("--")} - names:
            yield line.rstrip()


def test_commands_and_options_of_the_pages_exist() -> None:
    assert [f"{page.name}: {line}" for page, text in PAGES.items() for line in wrong_commands(text)] == []
    control = "```console\n$ reprokit list --json\n$ reprokit biuld taco\n$ reprokit results show x --colour\n```\n"
    assert [*wrong_commands(control)] == ["biuld taco", "results show x --colour"]


def test_the_readme_shows_what_its_command_prints() -> None:
    shown = re.search(r"```console\n\$ reprokit (.*)\n(?s:(.*?))```", README)
    assert shown and CliRunner().invoke(cli.app, shlex.split(shown[1])).stdout == shown[2]


def test_messages_point_to_pages_that_are_shipped() -> None:
    """An installed reprokit has no docs/: messages name `reprokit help TOPIC`, and the topic exists."""
    files = [path for ending in ("py", "yaml", "j2") for path in (ROOT / "reprokit").rglob(f"*.{ending}")]
    files = [path for path in files if path.name not in ("sources.yaml", "torch.yaml", "readme.py")]
    texts = {
        path: re.sub(r'""".*?"""|^#.*$', "", path.read_text(encoding="utf-8"), flags=re.S | re.M) for path in files
    }
    assert [str(path) for path, text in texts.items() if re.search(r"docs/\w+\.md", text)] == []
    topics = {topic for text in texts.values() for topic in re.findall(r"`reprokit help (\w[\w-]*)`", text)}
    assert topics and [topic for topic in topics if not (DOCS / f"{topic}.md").exists()] == []
    assert "docs/" not in (ROOT / "reprokit/config/start.yaml").read_text(encoding="utf-8")


def example(heading: str, language: str) -> str:
    """The one example of this language below a heading of CONTRIBUTING.md."""
    section = CONTRIBUTING.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    (code,) = re.findall(rf"^```{language}\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)
    return str(code)


def test_the_examples_of_contributing_work(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "workspaces/taco").mkdir(parents=True)
    module: dict = {}
    exec(example("Add a verb", "python"), module)
    app = typer.Typer()
    app.command()(module["where"])
    assert CliRunner().invoke(app, ["taco"], catch_exceptions=False).output == f"{tmp_path}/workspaces/taco\n"
    rules = (ROOT / "reprokit/compat/rules/flash_attn.py").read_text(encoding="utf-8")
    assert example("Add a compat rule", "python") in rules
    # As a block of the user's own: reprokit's own blocks have the same form.
    (tmp_path / "blocks").mkdir()
    (tmp_path / "blocks/topology.j2").write_text(example("Add a block", "jinja"), encoding="utf-8")
    dockerfile = render(target(tmp_path, blocks=[{"topology": {"graphics": True}}])).dockerfile
    assert "lstopo-no-graphics" in dockerfile and "hwloc-nox" not in dockerfile
    # An `ARG` is for reprokit's own blocks alone.
    text = template_environment().from_string(example("Add a kind of input", "jinja")).render(block="left-pad")
    assert '"$REPROKIT_NPM"left-pad-1.3.0.tgz' in text
