"""Inputs are made or copied out of the store once, never half, only if locked, and named by what is in them."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
import yaml

from reprokit.bench.inputs import place, prepare
from reprokit.errors import UsageError, WorkFailed
from reprokit.host.workspace import locate
from reprokit.recipe.find import Target
from reprokit.recipe.load import load_text
from reprokit.recipe.model import Input
from reprokit.supply.lock.file import lock_path, write
from reprokit.supply.lock.model import Lock, PlainFile


def no_data(file: Input) -> None:
    raise AssertionError(f"{file.path} is made, not fetched")


def made(path: str, make: str) -> list[Input]:
    return [Input(path=path, make=make)]


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_a_missing_input_is_made_and_hashed_and_a_present_one_is_kept(here, tmp_path):
    inputs = made("data/graph.npz", "echo made >> count; printf abc > data/graph.npz")
    for _ in range(2):
        assert prepare(here, inputs, ".", no_data, {}) == {"data/graph.npz": sha256("abc")}
    assert (tmp_path / "count").read_text() == "made\n"
    assert sorted(p.name for p in (tmp_path / "data").iterdir()) == ["graph.npz", "graph.npz.made"]
    # Made again where its command changed or was killed; an input of the user's is kept.
    for number in (1, 2):
        prepare(here, made("graph", f"printf {number} > graph"), ".", no_data, {})
    assert (tmp_path / "graph").read_text() == "2"
    (tmp_path / "own").write_text("mine")
    prepare(here, made("own", "printf new > own"), ".", no_data, {})
    assert (tmp_path / "own").read_text() == "mine"
    (tmp_path / "killed.making").touch()
    (tmp_path / "killed").write_text("hal")
    prepare(here, made("killed", "printf whole > killed"), ".", no_data, {})
    assert (tmp_path / "killed").read_text() == "whole" and not (tmp_path / "killed.making").exists()


def test_an_input_of_several_benchmarks_is_made_once_and_again_where_the_data_before_it_changed(here, tmp_path):
    """They list other inputs above it, and may run at the same time: one must not take it from the other."""

    def put(file: Input) -> None:
        if not (tmp_path / file.path).exists():
            (tmp_path / file.path).write_text(file.data)

    upper = made("upper", "tr a-z A-Z < zip > upper; echo made >> count")
    lists = [
        [Input(path=name, data=name) for name in names] for names in (["zip", "other"], ["zip"], [], ["other", "zip"])
    ]
    for content, count in (("zip", 1), ("changed", 2)):
        (tmp_path / "zip").write_text(content)
        for inputs in lists:
            prepare(here, [*inputs, *upper], ".", put, {})
        assert (tmp_path / "count").read_text() == "made\n" * count
        assert (tmp_path / "upper").read_text() == content.upper()


def test_data_in_the_workspace_that_is_not_the_locked_file_is_refused(here, tmp_path):
    (tmp_path / "g").write_text("altered")
    file, locked = [Input(path="g", data="g.zip")], sha256("locked")
    with pytest.raises(WorkFailed, match=r"the data g\.zip in the workspace is not the locked file") as refused:
        prepare(here, file, ".", lambda file: None, {"g.zip": locked})
    assert refused.value.where == "g" and "remove it" in refused.value.hint
    (tmp_path / "g").write_text("locked")
    assert prepare(here, file, ".", lambda file: None, {"g.zip": locked}) == {"g": locked}
    assert prepare(here, file, ".", lambda file: None, {}) == {"g": locked}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        ("printf hal > graph; echo no space >&2; exit 7", r"exit code 1\): no space"),
        ("true", "the command succeeded but did not create graph"),
    ],
)
def test_a_command_that_fails_is_named_and_run_again(here, tmp_path, make, message):
    with pytest.raises(WorkFailed, match=f"the input graph could not be created .*{message}"):
        prepare(here, made("graph", make), ".", no_data, {})
    prepare(here, made("graph", "printf whole > graph"), ".", no_data, {})
    assert (tmp_path / "graph").read_text() == "whole"


def test_a_folder_counts_as_all_that_is_in_it_and_braces_and_quotes_as_the_commands(here, tmp_path):
    inputs = made("data", "mkdir -p data/a && echo 1 > data/a/x && echo 2 > data/y")
    first = prepare(here, inputs, ".", no_data, {})
    assert prepare(here, inputs, ".", no_data, {}) == first
    (tmp_path / "data" / "a" / "x").write_text("3")
    assert prepare(here, inputs, ".", no_data, {}) != first
    prepare(here, made("x", """python3 -c 'open("x", "w").write("{}".format({1: "a"}))'"""), ".", no_data, {})
    assert (tmp_path / "x").read_text() == "{1: 'a'}"


def test_a_checksum_is_that_of_a_working_sha256sum(here, tmp_path):
    (tmp_path / "graph").write_text("abc")
    (tmp_path / "gone").symlink_to("gone")
    with pytest.raises(WorkFailed, match="no checksum of the input gone"):
        prepare(here, [Input(path="gone", data="x")], ".", lambda file: None, {})
    replaced = tmp_path / "bin" / "sha256sum"
    replaced.parent.mkdir()
    tools = ("exit 127", "true", "echo", "echo $(seq 64)", "printf %064d 1; exit 1", "printf %063d 1", "printf %064s g")
    for tool in tools:
        replaced.write_text(f"#!/bin/sh\n{tool}\n")
        replaced.chmod(0o755)
        with pytest.raises(WorkFailed, match="no checksum of the input graph"):
            prepare(here, made("graph", "true"), ".", no_data, {})
    replaced.unlink()
    assert prepare(here, made("graph", "true"), ".", no_data, {}) == {"graph": sha256("abc")}


FILE = PlainFile(name="reddit.zip", urls=("https://data.test/reddit.zip",), sha256="ab" * 32, size=4)
DATA = Input(path="data/x.zip", data="reddit.zip")


@pytest.fixture
def source(tmp_path) -> Path:
    file = tmp_path / "stored"
    file.write_bytes(b"data")
    return file


@pytest.fixture
def target(tmp_path, monkeypatch):
    """`target(workdir)`: a recipe whose lock has the file."""
    monkeypatch.setenv("REPROKIT_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)

    def make(workdir: str = "/workspace", data: dict[str, object] | None = None, locked: bool = True) -> Target:
        paper = {"title": "T", "venue": "V", "year": 2020, "licence": "MIT"}
        variants = {"v": {"base": "debian:12", "workdir": workdir}}
        text = yaml.safe_dump({"name": "paper", "paper": paper, "variants": variants, "data": [data] if data else []})
        made = Target(load_text(text, "paper.yaml", "paper"), "v", tmp_path / "paper.yaml")
        if locked:
            write(lock_path(made.path), Lock(recipe="paper", data=(FILE,)))
        return made

    return make


def test_data_is_put_below_the_work_folder_and_not_fetched_again(target, source):
    recipe = target("/workspace/run")
    fetched: list[PlainFile] = []

    def fetch(file: PlainFile) -> Path:
        fetched.append(file)
        return source

    for _ in range(2):
        place(recipe, DATA, fetch)
    put = locate("paper", recipe.path) / "run/data/x.zip"
    assert put.read_bytes() == b"data" and fetched == [FILE]
    put.write_bytes(b"changed")
    assert source.read_bytes() == b"data"


def test_data_that_is_not_locked_or_outside_of_the_workspace_is_refused(target, source):
    with pytest.raises(UsageError, match=r"reddit\.zip is not locked") as raised:
        place(target(locked=False), DATA, lambda file: source)
    assert "--data" in raised.value.hint
    with pytest.raises(UsageError, match="outside the workspace"):
        place(target("/opt/paper"), DATA, lambda file: source)
    workspace = locate("paper", target().path)
    workspace.mkdir(parents=True, exist_ok=True)
    (workspace / "data").write_text("a file")
    with pytest.raises(UsageError, match="cannot be put into the workspace: Not a directory"):
        place(target(), DATA, lambda _: source)


@pytest.mark.parametrize("planted", ["data/x.zip.making", "data"])
def test_a_link_that_a_program_left_leads_nowhere(target, source, tmp_path, planted):
    recipe = target()
    workspace, victim = locate("paper", recipe.path), tmp_path / "user"
    victim.mkdir()
    (victim / ".bashrc").write_text("mine")
    (workspace / planted).parent.mkdir(parents=True)
    (workspace / planted).symlink_to(victim if planted == "data" else victim / ".bashrc")
    if planted == "data":
        with pytest.raises(UsageError, match="a link is in the way"):
            place(recipe, DATA, lambda _: source)
    else:
        place(recipe, DATA, lambda _: source)
        assert (workspace / "data/x.zip").read_bytes() == b"data"
    assert [path.name for path in victim.iterdir()] == [".bashrc"] and (victim / ".bashrc").read_text() == "mine"


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
    recipe = target(data={name: value for name, value in data.items() if value})
    put = locate("paper", recipe.path) / "data/x.zip"
    if stale:
        put.parent.mkdir(parents=True)
        put.write_bytes(b"data")  # also a file that is there already is not what the recipe names
        with pytest.raises(WorkFailed, match=r"data reddit\.zip changed") as raised:
            place(recipe, DATA, lambda _: pytest.fail("fetched"))
        assert "reprokit lock" in raised.value.hint
    else:
        place(recipe, DATA, lambda _: source)
        assert put.read_bytes() == b"data"
