"""Repositories as folders."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from datetime import date
from pathlib import Path

import pytest

from reprokit.compat.distributions import bundled_distributions
from reprokit.compat.facts import bundled
from reprokit.importing.collect import collect
from reprokit.importing.decide import decide
from reprokit.importing.decision import Decision
from reprokit.importing.model import Statement
from reprokit.importing.python_choice import candidates
from reprokit.importing.reading import ReaderProcess
from reprokit.importing.tree import FolderTree


@pytest.fixture(scope="module")
def reader() -> Iterator[ReaderProcess]:
    with ReaderProcess() as process:
        yield process


@pytest.fixture(autouse=True)
def one_reader(reader: ReaderProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """One process for all tests of a module: its start is most of the time that they take."""
    reader.seconds = 0.0
    for module in ("collect", "versions"):
        monkeypatch.setattr(f"reprokit.importing.{module}.ReaderProcess", lambda: nullcontext(reader))


@pytest.fixture
def folder(tmp_path: Path) -> Callable[[dict[str, str]], FolderTree]:
    """`folder({path: text})` writes the files and opens their folder."""

    def write(files: dict[str, str]) -> FolderTree:
        root = tmp_path / "repository"
        root.mkdir(exist_ok=True)
        for path, text in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        return FolderTree(root)

    return write


@pytest.fixture
def stated(folder: Callable[[dict[str, str]], FolderTree]) -> Callable[[dict[str, str]], list[Statement]]:
    return lambda files: collect(folder(files))


@pytest.fixture
def decided(folder: Callable[[dict[str, str]], FolderTree]) -> Callable[..., Decision]:
    def run(files: dict[str, str], day: str = "2022-03-01") -> Decision:
        tree = folder(files)
        statements, when = collect(tree), date.fromisoformat(day)
        base, choice = candidates(statements, bundled(), when)[0]
        known = bundled_distributions()
        return decide(statements, tree.contents.sizes.keys(), {}, "tool", base, choice, when, bundled(), known)

    return run
