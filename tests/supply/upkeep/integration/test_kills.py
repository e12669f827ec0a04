"""Processes that use the store are killed at random moments."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE

import pytest

from reprokit.supply.kinds.git.store import folder_of
from reprokit.supply.locked_input import Commit
from reprokit.supply.store import Store
from reprokit.supply.upkeep import free, plan, verify
from tests.support.stores import a_lock, export_inputs, import_from, plain, put, with_trees, write_recipe

CONTENTS = [bytes([n]) * 100_000 for n in range(30)]
# For each line that it reads, forks a process that repeats its work.
SERVER = """
import os, shutil, sys
from pathlib import Path
from reprokit.supply.store import Store
from reprokit.supply.upkeep import free, plan
from tests.support.stores import export_inputs, import_from, put

def collect(store):
    with store.alone():
        free(store, plan(store, everything=True))

{work}

for line in sys.stdin:
    child = os.fork()
    if not child:
        os.setsid()
        print(os.getpid(), flush=True)
        while True:
            work()
    print("ended with", os.waitpid(child, 0)[1], flush=True)
"""


def killed(work: str, folder: Path, count: int) -> Iterator[None]:
    """Yield after each kill of the work (the body of a function) at a random moment."""
    program = SERVER.replace("{work}", "def work():" + textwrap.indent(textwrap.dedent(work), "    "))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=folder, env=environment, stdin=PIPE, stdout=PIPE, text=True
    ) as server:
        assert server.stdin is not None and server.stdout is not None
        for _ in range(count):
            print("go", file=server.stdin, flush=True)
            child = int(server.stdout.readline())
            time.sleep(random.uniform(0, 0.2))  # only the moment is random; what is judged is what was left
            os.killpg(child, signal.SIGKILL)
            assert server.stdout.readline() == f"ended with {int(signal.SIGKILL)}\n"
            yield
        server.stdin.close()


def collect(store: Store) -> None:
    with store.alone():
        free(store, plan(store, everything=True))


@pytest.fixture
def recipe(store: Store, recipes: Path, commit: Commit) -> Path:
    for content in CONTENTS:
        put(store, content)
    files = [plain(content, f"f{number}.bin") for number, content in enumerate(CONTENTS)]
    return write_recipe(recipes, with_trees(a_lock("x", files, [commit]), store))


@pytest.mark.long
@pytest.mark.kills(4)
def test_killed_while_it_frees(store: Store, recipe: Path, commit: Commit, tmp_path: Path, kills: int):
    named = {path.name for path in (store.root / "sha256").glob("*/*")}
    garbage = f"""
        store = Store(Path({str(store.root)!r}))
        repository = Path({str(folder_of(commit, store))!r})
        for number in range(40):
            put(store, b"%d" % number * 5000)
        for number in range(3):
            copy = repository.parent.parent / f"other{{number}}" / repository.name
            with store.scratch() as scratch:
                shutil.copytree(repository, Path(scratch) / "r")
                copy.parent.mkdir(exist_ok=True)
                (Path(scratch) / "r").replace(copy)
        collect(store)
    """
    for _ in killed(garbage, tmp_path, kills):
        assert verify(store).bad == ()
        collect(store)
        assert {path.name for path in (store.root / "sha256").glob("*/*")} == named
        assert folder_of(commit, store).is_dir() and not list((store.root / "tmp").iterdir())
    assert verify(store).bad == ()


@pytest.mark.long
@pytest.mark.kills(4)
def test_killed_while_it_imports(store: Store, recipe: Path, commit: Commit, tmp_path: Path, kills: int):
    archive, node = tmp_path / "x.rkit", Store(tmp_path / "node")
    export_inputs(["x"], archive, store)
    for path in recipe.parent.iterdir():
        path.unlink()  # so that nothing names what was imported, and it can be freed for the next round
    importing = f"""
        node = Store(Path({str(node.root)!r}))
        import_from(Path({str(archive)!r}), node)
        collect(node)
    """
    for _ in killed(importing, tmp_path, kills):
        assert verify(node).bad == ()
        import_from(archive, node)
        assert len(list((node.root / "sha256").glob("*/*"))) == len(CONTENTS) and folder_of(commit, node).is_dir()
        assert verify(node).bad == ()
