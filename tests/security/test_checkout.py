"""Recipes and locks of a stranger's checkout that are no plain files."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from reprokit import paths
from reprokit.bench import printed
from reprokit.bundle import inputs
from reprokit.bundle.selection import describe
from reprokit.engine import LABEL
from reprokit.errors import UsageError
from reprokit.host.workspace import copy, renew
from reprokit.oci.model import Image
from reprokit.recipe.find import target, where_in
from reprokit.supply.lock import file as lock_file
from reprokit.supply.lock.file import write
from reprokit.supply.lock.model import Lock
from tests.support.verbs import run_verb

RECIPE = """\
name: paper
paper: {title: T, venue: V, year: 2020, licence: MIT}
variants: {cpu: {base: "debian:12"}}
"""


def pipe(path: Path) -> None:
    os.mkfifo(path)


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.fixture
def ends() -> Iterator[None]:
    """Fail a test that waits for ever."""

    def late(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(10)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def check(folder: Path) -> subprocess.CompletedProcess[str]:
    return run_verb("lock", "--check", "paper", cwd=folder, env={"REPROKIT_HOME": str(folder / "home")})


@pytest.mark.slow
@pytest.mark.parametrize("plant", [pipe, endless])
@pytest.mark.parametrize("name", ["paper.yaml", "paper.lock.yaml"])
def test_what_never_ends_is_not_waited_for(tmp_path: Path, plant, name):
    folder = tmp_path / "recipes"
    folder.mkdir()
    (folder / "paper.yaml").write_text(RECIPE)
    (folder / name).unlink(missing_ok=True)
    plant(folder / name)
    refused = check(tmp_path)
    assert refused.returncode == 2, refused
    problem = "this is not a regular file with a single name" if plant is pipe else "a link is in the way"
    assert f"error: {problem}" in refused.stderr and f"({folder / name})" in refused.stderr
    (folder / name).unlink()
    (folder / "paper.yaml").write_text(RECIPE)
    assert "paper:cpu: no lock" in check(tmp_path).stdout


@pytest.mark.parametrize("planted", ["recipes/paper.yaml", "recipes/paper.lock.yaml", "recipes/paper"])
def test_recipes_and_locks_are_read_through_no_link(tmp_path: Path, planted: str):
    """An error about a file that is no recipe names its first field, which may be a secret."""
    (tmp_path / "recipes").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "paper.yaml").write_text("root:$6$secret:19000: 0\n")
    link = tmp_path / planted
    if planted == "recipes/paper.lock.yaml":
        (tmp_path / "recipes" / "paper.yaml").write_text(RECIPE)
    link.symlink_to(tmp_path / "outside" / ("paper.yaml" if link.suffix else ""))
    for words in (("list",), ("lock", "--check", "paper"), ("store", "ls")):
        done = run_verb(*words, cwd=tmp_path, env={"REPROKIT_HOME": str(tmp_path / "home")})
        assert "secret" not in f"{done.stdout}{done.stderr}"
    refused = check(tmp_path)
    assert refused.returncode == 2 and "a link is in the way" in refused.stderr
    link.unlink()  # the control: the folder of recipes itself is the user's to link
    (tmp_path / "recipes" / "paper.yaml").write_text(RECIPE)
    (tmp_path / "recipes").rename(tmp_path / "elsewhere")
    (tmp_path / "recipes").symlink_to("elsewhere")
    assert "paper:cpu: no lock" in check(tmp_path).stdout
    (tmp_path / "paper.yaml").symlink_to("elsewhere/paper.yaml")  # and a path of the command line is opened as named
    named = run_verb("lock", "--check", "./paper.yaml", cwd=tmp_path, env={"REPROKIT_HOME": str(tmp_path / "home")})
    assert "paper:cpu: no lock" in named.stdout


PREPARE = """
import resource, sys
from pathlib import Path
from reprokit import paths
from reprokit.host.workspace import keep_up
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
paths.data_root = lambda: Path(sys.argv[1])
keep_up("paper", paths.data_root() / "recipes" / "paper.yaml", print)
"""
RECORDS = ["[]", "[" * 100_000, '{"": "x"}', '{"a\\u0000": "x"}', '{"\\ud800": "x"}', '{"a": 1}', "\udcff"]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed reprokit with a workspace, and a checkout as the current folder."""
    package = tmp_path / "package"
    (package / "workspaces" / "paper").mkdir(parents=True)
    (package / "workspaces" / "paper" / "a").write_text("new")
    (tmp_path / "checkout" / "workspaces" / "paper").mkdir(parents=True)
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(paths, "data_root", lambda: package)
    monkeypatch.chdir(tmp_path / "checkout")
    return package


@pytest.mark.slow
@pytest.mark.parametrize("plant", [pipe, endless])
def test_a_record_of_a_copy_in_a_checkout_is_not_read(package: Path, tmp_path: Path, plant):
    """Copies are made below the user's own roots, so a record in a checkout is never reprokit's."""
    record = Path("workspaces/.paper.copied.json")
    plant(record)
    command = [sys.executable, "-c", PREPARE, str(package)]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    subprocess.run(command, check=True, timeout=200, env=env)
    record.unlink()
    record.write_text(json.dumps({"b": sha256(b"the user's").hexdigest()}))
    Path("workspaces/paper/b").write_text("the user's")
    subprocess.run(command, check=True, timeout=200, env=env)
    assert Path("workspaces/paper/b").read_text() == "the user's"
    # The control: below a root, the same record lets the file be removed.
    (tmp_path / "root").mkdir()
    Path("workspaces").rename(tmp_path / "root" / "workspaces")
    subprocess.run(command, check=True, timeout=200, env=env | {"REPROKIT_HOME": str(tmp_path / "root")})
    assert [path.name for path in (tmp_path / "root/workspaces/paper").iterdir()] == ["a"]


@pytest.mark.parametrize("text", RECORDS, ids=range(len(RECORDS)))
def test_a_record_of_a_copy_that_is_none(tmp_path: Path, text: str):
    original, place = tmp_path / "original", tmp_path / "home" / "paper"
    original.mkdir()
    (original / "a").write_text("old")
    place.parent.mkdir()
    copy(original, place)
    (original / "a").write_text("new")
    record = place.parent / ".paper.copied.json"
    good = record.read_bytes()
    record.write_bytes(text.encode("utf-8", "surrogateescape"))
    renew(place, original, print)
    record.write_bytes(good)  # the control
    (place / "a").write_text("old")
    renew(place, original, print)
    assert (place / "a").read_text() == "new"


@pytest.mark.usefixtures("ends")
@pytest.mark.parametrize("name", ["paper.yaml", "paper.lock.yaml"])
def test_what_replaces_a_file_that_was_read_is_not_waited_for(tmp_path: Path, monkeypatch, name: str):
    recipe, lock = tmp_path / "recipes" / "paper.yaml", tmp_path / "recipes" / "paper.lock.yaml"
    recipe.parent.mkdir()
    recipe.write_text(RECIPE)
    write(lock, Lock(recipe="paper", variants={}))
    monkeypatch.chdir(tmp_path)
    found, read = target("paper"), lock_file.read(lock)
    image, labels = Image("paper:cpu", b"{}", ()), {f"{LABEL}.recipe": "paper", f"{LABEL}.variant": "cpu"}
    line = where_in(found, ("base",))
    assert line == f"{recipe}:3" and describe(image, labels, print).recipe_text == RECIPE
    assert inputs._texts(recipe, read).recipe == RECIPE
    (recipe.parent / name).unlink()
    pipe(recipe.parent / name)
    with pytest.raises(UsageError, match="this is not a regular file"):
        inputs._texts(recipe, read)
    if name == "paper.yaml":
        assert where_in(found, ("base",)) == str(recipe)
        with pytest.raises(UsageError, match="this is not a regular file"):
            describe(image, labels, print)
    else:
        assert describe(image, labels, print).lock_text == ""


@pytest.mark.usefixtures("ends")
def test_records_that_are_no_file(tmp_path: Path, monkeypatch):
    file = tmp_path / "r.jsonl"
    pipe(file)
    with pytest.raises(UsageError, match="this is not a regular file"):
        printed.read(file, "paper")
    file.unlink()
    file.write_text('{"type": "x"}\n' + "x" * 1000)
    monkeypatch.setenv("REPROKIT_LIMIT_COMMAND_OUTPUT", "1000")
    with pytest.raises(UsageError, match="more than 1000 bytes of output"):
        printed.read(file, "paper")
    monkeypatch.setenv("REPROKIT_LIMIT_COMMAND_OUTPUT", "2000")  # the control
    with pytest.raises(UsageError, match="neither records nor a benchmark's output"):
        printed.read(file, "paper")
