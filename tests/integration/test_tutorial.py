"""The tutorial, typed as it is written: its `sh` blocks run in order, and its `text` blocks are what they print."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from reprokit.engine import Engine
from tests.support.names import unique
from tests.support.paths import ROOT

TUTORIAL = ROOT / "docs" / "tutorial.md"
RECIPE = "myfaiss"


def blocks() -> list[tuple[str, str]]:
    """What a reader types (`sh`) or compares (`text`), in order."""
    return re.findall(r"^```(sh|text)\n(.*?)^```$", TUTORIAL.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def comparable(text: str) -> str:
    """`text` without what differs between runs: numbers, identifiers, paths in parentheses, line breaks."""
    text = re.sub(r"\((?:sha256:|/)[^)]*\)", "(...)", text)
    return " ".join(re.sub(r"\d+(?:\.\d+)*(?:e[+-]\d+)?", "#", text).split())


def absent(expected: str, printed: str) -> list[str]:
    """The parts of `expected`, between lines of `...`, that `printed` lacks."""
    parts = (comparable(part) for part in re.split(r"^\.\.\.$", expected, flags=re.MULTILINE))
    return [part for part in parts if part not in comparable(printed)]


@pytest.fixture
def recipe(engine: Engine) -> Iterator[str]:
    """A name that no other run uses. Its containers and its image are removed."""
    name = unique("tutorial").replace("-", "")
    yield name
    for container in engine.containers([f"reprokit.recipe={name}"]):
        engine.remove(container.id, force=True)
    if engine.image(f"reprokit/{name}:cpu"):
        engine.remove_image(f"reprokit/{name}:cpu", force=True)


@pytest.mark.network
@pytest.mark.long
def test_every_command_works_and_prints_what_the_tutorial_shows(recipe: str, tmp_path: Path) -> None:
    command, folder = tmp_path / "bin" / "reprokit", tmp_path / "papers"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m reprokit "$@"\n')
    command.chmod(0o755)
    folder.mkdir()
    env = {
        **os.environ,
        "PATH": f"{command.parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "REPROKIT_HOME": str(tmp_path / "home"),
        "NO_COLOR": "1",
    }
    printed = ""
    for kind, block in blocks():
        text = block.replace(RECIPE, recipe)
        if kind == "text":
            assert not absent(text, printed), printed
            continue
        # What a block exports holds for the next one, as in a terminal.
        exports = tmp_path / "exports"
        script = f"[ ! -e {exports} ] || . {exports}\n{text}\nexport -p > {exports}"
        done = subprocess.run(
            ["bash", "-ec", script], cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        printed = done.stdout
        assert done.returncode == 0, f"{text}\n{printed}"
    assert (folder / "workspaces" / recipe / "figure.png").read_bytes().startswith(b"\x89PNG")
