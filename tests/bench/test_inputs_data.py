"""Data of benchmarks is copied out of the store into the workspace, once, and only where it is locked."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from reprokit.bench.inputs import place
from reprokit.errors import UsageError, WorkFailed
from reprokit.host.workspace import locate
from reprokit.recipe.find import Target
from reprokit.recipe.load import load_text
from reprokit.recipe.model import Input
from reprokit.supply.lock.file import lock_path, write
from reprokit.supply.lock.model import Lock, PlainFile

FILE = PlainFile(name="reddit.zip", urls=("https://data.test/reddit.zip",), sha256="ab" * 32, size=4)


@pytest.fixture
def target(tmp_path, monkeypatch):
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)

    def make(workdir: str = "/workspace", data: dict[str, object] | None = None) -> Target:
        paper = {"title": "T", "venue": "V", "year": 2020, "licence": "MIT"}
        variants = {"v": {"base": "debian:12", "workdir": workdir}}
        named = {"data": [data]} if data else {}
        text = yaml.safe_dump({"name": "paper", "paper": paper, "variants": variants, **named})
        return Target(load_text(text, "paper.yaml", "paper"), "v", tmp_path / "paper.yaml")

    return make


@pytest.fixture
def source(tmp_path) -> Path:
    file = tmp_path / "stored"
    file.write_bytes(b"data")
    return file


def test_it_is_put_below_the_work_folder_and_not_fetched_again(target, source):
    found = target("/workspace/run")
    write(lock_path(found.path), Lock(recipe="paper", data=(FILE,)))
    fetched: list[PlainFile] = []

    def fetch(file: PlainFile) -> Path:
        fetched.append(file)
        return source

    file = Input(path="data/reddit.zip", data="reddit.zip")
    place(found, file, fetch)
    place(found, file, fetch)
    put = locate("paper", found.path) / "run/data/reddit.zip"
    assert put.read_bytes() == b"data" and fetched == [FILE]
    put.write_bytes(b"changed")
    assert source.read_bytes() == b"data"


def test_what_is_not_locked_is_not_fetched(target):
    with pytest.raises(UsageError, match=r"reddit\.zip is not locked") as raised:
        place(target(), Input(path="reddit.zip", data="reddit.zip"), lambda file: Path())
    assert "--data" in raised.value.hint


def test_a_work_folder_outside_of_the_workspace_is_refused(target):
    with pytest.raises(UsageError, match="outside the workspace"):
        place(target("/opt/paper"), Input(path="reddit.zip", data="reddit.zip"), lambda file: Path())


@pytest.mark.parametrize("planted", ["data/evil.making", "data"])
def test_a_link_that_a_program_left_leads_nowhere(target, source, tmp_path, planted):
    found = target()
    write(lock_path(found.path), Lock(recipe="paper", data=(FILE,)))
    workspace, victim = locate("paper", found.path), tmp_path / "user"
    victim.mkdir()
    (victim / ".bashrc").write_text("mine")
    (workspace / planted).parent.mkdir(parents=True)
    (workspace / planted).symlink_to(victim if planted == "data" else victim / ".bashrc")
    file = Input(path="data/evil", data="reddit.zip")
    if planted == "data":
        with pytest.raises(UsageError, match="a link is in the way"):
            place(found, file, lambda _: source)
    else:
        place(found, file, lambda _: source)
        assert (workspace / "data/evil").read_bytes() == b"data"
    assert [path.name for path in victim.iterdir()] == [".bashrc"] and (victim / ".bashrc").read_text() == "mine"


def test_a_file_in_place_of_a_folder_is_named(target, source):
    found = target()
    write(lock_path(found.path), Lock(recipe="paper", data=(FILE,)))
    workspace = locate("paper", found.path)
    workspace.mkdir(parents=True)
    (workspace / "data").write_text("a file")
    with pytest.raises(UsageError, match="cannot be put into the workspace: Not a directory"):
        place(found, Input(path="data/x", data="reddit.zip"), lambda _: source)


@pytest.mark.parametrize(
    ("changed", "stale"),
    [
        ({}, False),
        ({"sha256": None}, False),
        ({"sha256": "cd" * 32}, True),
        ({"urls": ["https://data.test/v2/reddit.zip"]}, True),
        ({"urls": [], "source": "zenodo:1"}, True),
    ],
)
def test_other_data_than_the_recipes_is_not_put_there(target, source, changed, stale):
    data = {"name": FILE.name, "urls": list(FILE.urls), "sha256": FILE.sha256, **changed}
    found = target(data={name: value for name, value in data.items() if value})
    write(lock_path(found.path), Lock(recipe="paper", data=(FILE,)))
    file, put = Input(path="reddit.zip", data=FILE.name), locate("paper", found.path) / "reddit.zip"
    if stale:
        put.parent.mkdir(parents=True)
        put.write_bytes(b"data")  # also a file that is there already is not what the recipe names
        with pytest.raises(WorkFailed, match=r"data reddit\.zip changed") as raised:
            place(found, file, lambda _: pytest.fail("fetched"))
        assert "reprokit lock" in raised.value.hint
    else:
        place(found, file, lambda _: source)
        assert put.read_bytes() == b"data"
