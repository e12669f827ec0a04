"""Outputs that cannot be written: the disk is to blame (exit code 3), or the path that the user named (2)."""

from __future__ import annotations

from pathlib import Path

import pytest

from reprokit.errors import EngineError
from reprokit.results.lines import append
from reprokit.supply.lock import file
from reprokit.supply.lock.model import Lock
from tests.support.disk import Disk
from tests.support.records import RECORD
from tests.support.verbs import run_verb

RECIPE = """name: x
paper: {title: T, venue: V, year: 2020, licence: MIT}
variants:
  a:
    base: debian:12
    pins: {python: "3.12", torch: "1.13.1"}
    blocks: [python, torch]
"""
VERBS = [
    (("config", "--init"), "choose another file with REPROKIT_CONFIG"),
    (("new", "mine"), "start in a folder that you can write"),
    (("solve", "x:a", "--write", "b"), "write it elsewhere"),
]


def results() -> None:
    append(Path.cwd(), "results/x.jsonl", [RECORD] * 20)  # more than the rest of a page


def lock() -> None:
    file.write(Path("recipes/y.lock.yaml"), Lock(recipe="y"))


def files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
@pytest.mark.parametrize("reason", ["No space left on device", "Read-only file system"])
def test_the_disk_is_to_blame_and_what_was_there_stays(disk: Disk, monkeypatch: pytest.MonkeyPatch, reason: str):
    folder = disk.folder
    (folder / "recipes").mkdir()
    (folder / "recipes/x.yaml").write_text(RECIPE)
    monkeypatch.chdir(folder)
    results()
    if "space" in reason:
        disk.fill()
    else:
        disk.limit("ro")
    before = files(folder)
    for write in (results, lock):
        with pytest.raises(EngineError, match=f"cannot be written: {reason}"):
            write()
    for words, hint in VERBS:
        done = run_verb(*words, env={"REPROKIT_CONFIG": str(folder / "config.yaml")})
        assert done.returncode == 3 and f"cannot be written: {reason} (" in done.stderr, words
        assert f"hint: {'free space there' if 'space' in reason else hint}\n" in done.stderr
    assert files(folder) == before


@pytest.mark.parametrize(
    ("words", "what"), [(("config", "--init"), "configuration"), (("new", "mine"), "recipe")], ids=["config", "new"]
)
def test_a_file_in_place_of_a_folder_is_a_wrong_path(tmp_path: Path, words: tuple[str, ...], what: str):
    (tmp_path / "recipes").write_text("")
    done = run_verb(*words, cwd=tmp_path, env={"REPROKIT_CONFIG": str(tmp_path / "recipes/config.yaml")})
    assert done.returncode == 2 and f"error: the {what} cannot be written: " in done.stderr
