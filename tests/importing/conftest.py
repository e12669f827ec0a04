"""Repositories as folders."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from datetime import date
from pathlib import Path

import pytest

from reprokit.compat.distributions import bundled_distributions
from reprokit.compat.facts import bundled
from reprokit.config import Configuration
from reprokit.importing.collect import collect
from reprokit.importing.decide import decide
from reprokit.importing.decision import Decision
from reprokit.importing.python_choice import candidates
from reprokit.importing.reading import ReaderProcess
from reprokit.importing.tree import FolderTree
from reprokit.supply.kinds.wheels.pip import PipSettings
from reprokit.supply.mirrors import Mirrors
from reprokit.supply.store import Store
from tests.support.fetching import HOSTS
from tests.support.json_index import Index
from tests.support.upstream import Upstream


@pytest.fixture(scope="session")
def reader() -> Iterator[ReaderProcess]:
    with ReaderProcess() as process:
        yield process


@pytest.fixture(autouse=True)
def one_reader(reader: ReaderProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """One process for all tests: its start is most of the time that they take."""
    reader.seconds = 0.0
    for module in ("collect", "versions"):
        monkeypatch.setattr(f"reprokit.importing.{module}.ReaderProcess", lambda: nullcontext(reader))


@pytest.fixture
def index(upstream: Upstream, tmp_path: Path) -> Index:
    return Index(upstream, tmp_path / "wheels")


@pytest.fixture
def mirrors(store: Store, upstream: Upstream) -> Mirrors:
    pip = PipSettings(index=f"http://127.0.0.1:{upstream.port}/simple/")
    return Mirrors(store, Configuration(hosts=HOSTS), pip=pip)


@pytest.fixture
def folder(tmp_path: Path) -> Callable[[dict[str, str]], FolderTree]:
    """`folder({path: text})` writes the files into a new folder and opens it."""
    roots = map(str, range(100))

    def write(files: dict[str, str]) -> FolderTree:
        root = tmp_path / next(roots)
        root.mkdir()
        for path, text in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        return FolderTree(root)

    return write


@pytest.fixture
def stated(folder: Callable[[dict[str, str]], FolderTree]) -> Callable[..., str]:
    """`stated({path: text}, *subjects)` is `LINE SUBJECT VALUE (SCOPE) | ...` of the files, by default of all subjects.

    The scope `run` is left out, and so is the subject if only one is requested. Statements of another file than the
    first begin with its path.
    """

    def run(files: dict[str, str], *subjects: str) -> str:
        lines = []
        for s in collect(folder(files)):
            if s.subject in subjects or not subjects:
                path = "" if s.origin.file == next(iter(files)) else f"{s.origin.file}:"
                subject = "" if len(subjects) == 1 else f"{s.subject} "
                scope = "" if s.scope == "run" else f" ({s.scope})"
                lines.append(f"{path}{s.origin.line} {subject}{s.value}{scope}")
        return " | ".join(lines)

    return run


@pytest.fixture
def decided(folder: Callable[[dict[str, str]], FolderTree]) -> Callable[..., Decision]:
    def run(files: dict[str, str], day: str = "2022-03-01") -> Decision:
        tree = folder(files)
        statements, when = collect(tree), date.fromisoformat(day)
        base, choice = candidates(statements, bundled(), when)[0]
        modules = bundled_distributions()
        return decide(statements, tree.contents.sizes.keys(), {}, "tool", base, choice, when, bundled(), modules)

    return run
