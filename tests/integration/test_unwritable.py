"""Outputs that cannot be written: the disk is to blame (exit code 3), or the path that the user named (2)."""

from __future__ import annotations

from collections.abc import Callable
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


def results() -> None:
    append(Path.cwd(), "results/x.jsonl", [RECORD] * 20)  # more than the rest of a page


def lock() -> None:
    file.write(Path("recipes/y.lock.yaml"), Lock(recipe="y"))


@pytest.fixture
def where(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> Path:
    (disk.folder / "recipes").mkdir()
    (disk.folder / "recipes/x.yaml").write_text(RECIPE)
    monkeypatch.chdir(disk.folder)
    results()
    return disk.folder


@pytest.fixture(params=["full", "read-only"])
def reason(request: pytest.FixtureRequest, disk: Disk, where: Path) -> str:
    if request.param == "full":
        disk.fill()
        return "No space left on device"
    disk.limit("ro")
    return "Read-only file system"


def files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("write", [results, lock])
def test_a_function_blames_the_disk_and_leaves_what_was_there(where: Path, reason: str, write: Callable[[], None]):
    before = files(where)
    with pytest.raises(EngineError, match=f"cannot be written: {reason}"):
        write()
    assert files(where) == before


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("config", "--init"), "choose another file with REPROKIT_CONFIG"),
        (("new", "mine"), "start in a folder that you can write"),
        (("solve", "x:a", "--write", "b"), "write it elsewhere"),
    ],
    ids=["config", "new", "solve"],
)
@pytest.mark.slow
def test_a_verb_blames_the_disk_and_leaves_no_part(where: Path, reason: str, words: tuple[str, ...], hint: str):
    before = files(where)
    done = run_verb(*words, env={"REPROKIT_CONFIG": str(where / "config.yaml")})
    assert done.returncode == 3 and f"cannot be written: {reason} (" in done.stderr
    assert f"hint: {'free space there' if 'space' in reason else hint}\n" in done.stderr
    assert files(where) == before


@pytest.mark.parametrize(
    ("words", "what"), [(("config", "--init"), "configuration"), (("new", "mine"), "recipe")], ids=["config", "new"]
)
def test_a_file_in_place_of_a_folder_is_a_wrong_path(tmp_path: Path, words: tuple[str, ...], what: str):
    (tmp_path / "recipes").write_text("")
    done = run_verb(*words, cwd=tmp_path, env={"REPROKIT_CONFIG": str(tmp_path / "recipes/config.yaml")})
    assert done.returncode == 2 and f"error: the {what} cannot be written: " in done.stderr
