"""Folders of reprokit's that another user of the machine would read, or replace files in."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from reprokit import paths
from reprokit.errors import EngineError
from reprokit.supply.store import Store
from tests.support.privileges import as_root

NOBODY = 65534


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_folders_are_private(home: Path):
    home.mkdir()
    for folder in (paths.state() / "logs", home / "tmp", home / "locks"):
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o777)
        assert paths.private(folder).stat().st_mode & 0o777 == 0o700
    assert paths.state().stat().st_mode & 0o777 == 0o700
    assert paths.private(home / "new").stat().st_mode & 0o777 == 0o700
    for mode, left in ((0o755, 0o700), (0o777, 0o700), (0o770, 0o750), (0o750, 0o750), (0o2750, 0o2750)):
        (home / "store").mkdir(exist_ok=True)
        (home / "store").chmod(mode)
        with Store().in_use():
            assert (home / "store").stat().st_mode & 0o7777 == left


@as_root()
def test_folders_of_another_user_are_refused(home: Path):
    home.mkdir()
    for folder, shared in ((home / "tmp", False), (home / "store", True)):
        folder.mkdir()
        folder.chmod(0o777)
        os.chown(folder, NOBODY, NOBODY)
        with pytest.raises(EngineError, match="belongs to another user"):
            paths.private(folder, shared)
    (home / "store").chmod(0o755)
    assert paths.private(home / "store", shared=True)


USE = """
from pathlib import Path
from reprokit.supply.store import Store
store = Store(Path({store!r}))
with store.in_use(print):
    print(store.path({sha256!r}).read_text(), store.remembered("kind", "key"))
    store.remember("kind", "key", 2)
"""


@as_root()
def test_another_user_reads_a_store_only_where_its_group_may(short_folder: Path):
    store = Store(short_folder / "store")
    with store.in_use(), store.scratch() as scratch:
        (Path(scratch) / "file").write_text("content")
        sha256 = store.add(Path(scratch) / "file")
    store.remember("kind", "key", 1)
    script = USE.format(store=str(store.root), sha256=sha256)
    folders = [str(Path(__file__).parents[2]), *(path for path in sys.path if "site-packages" in path)]
    command = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "/usr/bin/python3", "-c", script]
    environment = {"PYTHONPATH": ":".join(folders), "HOME": str(short_folder), "PATH": os.environ["PATH"]}

    def use() -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, capture_output=True, text=True, env=environment, cwd="/")

    assert "Permission denied" in use().stderr
    os.chown(store.root, 0, NOBODY)
    for folder, _, files in os.walk(store.root):
        os.chown(folder, 0, NOBODY)
        for file in files:
            os.chown(Path(folder) / file, 0, NOBODY)
    store.root.chmod(0o750)
    assert use().stdout == "content None\n", use().stderr
    assert store.remembered("kind", "key") == 1


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder that other users reach."""
    with tempfile.TemporaryDirectory(prefix="reprokit-", dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)
