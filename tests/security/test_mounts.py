"""What a container can write is never mounted by its path, and no recipe reaches a folder that is not its own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from reprokit import paths
from reprokit.container import log, names
from reprokit.container.execute import execute
from reprokit.container.lifecycle import ensure_running, stop, usual_name
from reprokit.container.settings import ContainerSettings, RunOptions, to_label
from reprokit.errors import EngineError, UsageError
from reprokit.host.mounts import BindMount
from reprokit.host.workspace import locate
from reprokit.nodes import workspace_copy
from reprokit.recipe.find import target
from tests.support.papers import Paper, paper
from tests.support.verbs import run_verb

DOCKERFILE = """
FROM {base}
RUN mkdir -p /full /empty && mkdir -m 777 /made && touch /full/file && ln -s /etc /linked
"""
# What a container does to the source of a mount.
SWAP = "rm -rf /workspace/data && ln -s {outside} /workspace/data"
WRITE = "mkdir -p /data; touch /data/written; true"
MOUNT = "    mounts: [{source: data, target: /data}]\n"


@pytest.fixture(scope="module")
def a_paper(engine, debian_12):
    with paper(engine, DOCKERFILE.format(base=debian_12.name)) as made:
        yield made


@pytest.fixture
def stranger(a_paper: Paper):
    """The recipe without containers and workspace."""
    yield a_paper
    a_paper.clear()


@pytest.fixture
def outside(stranger: Paper) -> Path:
    folder = stranger.place / "outside"
    folder.mkdir()
    return folder


def call(*args: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return run_verb(*args, env=environment)


def refused(done: subprocess.CompletedProcess[str], words: str) -> bool:
    """With exit code 2, one line and a remedy."""
    lines = done.stderr.splitlines()
    kinds = [line.partition(":")[0] for line in lines]
    return done.returncode == 2 and kinds == ["error", "hint"] and words in lines[0]


def sh(engine, container: str, script: str) -> str:
    done = execute(engine, container, ["sh", "-c", script], logged=False)
    assert done.exit_code == 0, done
    return done.stdout


def test_a_source_that_a_container_replaces_is_not_mounted(engine, stranger, outside):
    name = ensure_running(engine, stranger.recipe(MOUNT))
    sh(engine, name, "echo here > /data/file")
    assert (stranger.workspace / "data" / "file").read_text() == "here\n"
    sh(engine, name, SWAP.format(outside=outside))
    stop(engine, name)
    assert ensure_running(engine, target(stranger.name)) == name
    execute(engine, name, ["sh", "-c", WRITE], logged=False)
    ensure_running(engine, target(stranger.name), RunOptions(shm=1 << 27))  # makes it anew
    execute(engine, name, ["sh", "-c", WRITE], logged=False)
    assert list(outside.iterdir()) == []


def test_an_engine_follows_such_a_link(engine, stranger, outside):
    """The control: what reprokit did before."""
    (stranger.workspace / "data").mkdir(parents=True)
    mounts = [
        {"Type": "bind", "Source": str(stranger.workspace), "Target": "/workspace"},
        {"Type": "bind", "Source": str(stranger.workspace / "data"), "Target": "/data"},
    ]
    name = stranger.by_hand(Entrypoint=["sleep", "1000"], HostConfig={"Mounts": mounts, "Init": True})
    engine.start(name)
    sh(engine, name, SWAP.format(outside=outside))
    engine.stop(name)
    engine.start(name)
    sh(engine, name, WRITE)
    assert [path.name for path in outside.iterdir()] == ["written"]


def test_a_container_of_an_older_reprokit_is_made_anew(engine, stranger, outside):
    made = stranger.recipe(MOUNT)
    (stranger.workspace / "data").mkdir(parents=True)
    mounts = (BindMount(str(stranger.workspace), "/workspace"), BindMount(str(stranger.workspace / "data"), "/data"))
    name = f"reprokit-{stranger.name}-cpu"
    image = engine.image(stranger.image)
    labels = {
        names.NAME: name, names.RECIPE: stranger.name, names.VARIANT: "cpu", names.IMAGE: image["Id"],
        names.OWNER: str(os.getuid()), names.USER: "0:0", names.SETTINGS: to_label(ContainerSettings(mounts=mounts)),
    }  # fmt: skip
    binds = [{"Type": "bind", "Source": m.source, "Target": m.target} for m in mounts]
    config = {"Entrypoint": ["sleep", "1000"], "User": "0:0", "HostConfig": {"Mounts": binds, "Init": True}}
    engine.create_container(name, {"Image": stranger.image, "Labels": labels, **config})
    engine.start(name)
    sh(engine, name, "echo work > /made/work; " + SWAP.format(outside=outside))
    engine.stop(name)
    log.log_path(name).parent.mkdir(parents=True)
    log.log_path(name).write_text("what it printed\n")
    said: list[str] = []
    earlier, name = name, ensure_running(engine, made, notify=said.append)
    assert said[0] == f"{earlier} is called {name} now: containers belong to a checkout"
    assert "for this version of reprokit; its files stay" in said[1] and engine.container(earlier) is None
    assert log.log_path(name).read_text() == "what it printed\n"
    execute(engine, name, ["sh", "-c", WRITE], logged=False)
    assert sh(engine, name, "cat /made/work; readlink /data") == "work\n/workspace/data\n"
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("target", ["/full", "/linked/x", "/full/file/x", "/etc/passwd"])
def test_a_link_replaces_nothing_of_the_image(engine, stranger, target):
    made = stranger.recipe(f"    mounts: [{{source: data, target: {target}}}]\n")
    with pytest.raises(UsageError, match="the image has files or a link at"):
        ensure_running(engine, made)
    assert engine.containers([f"reprokit.recipe={stranger.name}"]) == []


def test_a_link_is_made_where_nothing_is_and_in_place_of_an_empty_folder(engine, stranger):
    made = stranger.recipe("    mounts: [{source: a/b, target: /empty}, {source: ., target: /new/deep/all}]\n")
    name = ensure_running(engine, made)
    sh(engine, name, "echo a > /empty/file; echo b > /new/deep/all/file")
    assert (stranger.workspace / "a/b/file").read_text() == "a\n"
    assert (stranger.workspace / "file").read_text() == "b\n"


def test_a_mount_of_the_users_comes_before_a_link(engine, stranger, outside):
    made = stranger.recipe(MOUNT)
    name = ensure_running(engine, made, RunOptions(mounts=(BindMount(str(outside), "/data"),)))
    sh(engine, name, WRITE)
    assert [path.name for path in outside.iterdir()] == ["written"]
    engine.remove(name, force=True)
    ensure_running(engine, made)
    with pytest.raises(UsageError, match="a link of the recipe at /data"):
        ensure_running(engine, made, RunOptions(mounts=(BindMount(str(outside), "/data"),)))


def test_folders_of_a_recipe_are_made_through_no_link(stranger, outside):
    stranger.workspace.mkdir(parents=True)
    (stranger.workspace / "data").symlink_to(outside)
    stranger.recipe("    mounts: [{source: data/sub, target: /data}]\n")
    assert refused(call("run", stranger.name, "--", "true"), "a link is in the way")
    assert list(outside.iterdir()) == []


class Node:
    """A node's shell, which is this machine's."""

    node = SimpleNamespace(name="node")

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("link", ["data", "data/sub"])
def test_folders_of_a_recipe_are_made_through_no_link_on_a_node(stranger, outside, link):
    made = stranger.recipe("    mounts: [{source: data/sub/deep, target: /data}, {source: ./more//x, target: /x}]\n")
    cache = stranger.place / "cache"
    workspace = Path(workspace_copy.folder_of(str(cache), made))
    workspace.mkdir(parents=True)
    assert workspace_copy.workspace(Node(), str(cache), made, print) == str(workspace)
    assert (workspace / "data/sub/deep").is_dir() and (workspace / "more/x").is_dir()
    subprocess.run(["rm", "-r", str(workspace / link)], check=True)
    (workspace / link).symlink_to(outside)
    with pytest.raises(EngineError, match="a link is in the way"):
        workspace_copy.workspace(Node(), str(cache), made, print)
    assert list(outside.iterdir()) == []


def test_the_user_mounts_nothing_that_a_container_can_replace(engine, stranger, outside):
    stranger.recipe()
    (stranger.workspace / "data").mkdir(parents=True)
    (outside / "inner").mkdir()
    inside = call("run", stranger.name, "-v", f"{stranger.workspace}/data:/d", "--", "true")
    assert refused(inside, f"could replace {stranger.workspace}/data")
    above = call("run", stranger.name, "-v", f"{stranger.place}:/all", "--", "true")
    assert refused(above, f"could replace {stranger.workspace}")
    assert engine.containers([f"reprokit.recipe={stranger.name}"]) == []
    harmless = ("-v", f"{stranger.place}:/all:ro", "-v", f"{outside}:/o")
    assert call("run", stranger.name, *harmless, "--", "true").returncode == 0
    second = call("run", stranger.name, "--name", f"{stranger.name}-2", "-v", f"{outside}/inner:/i", "--", "true")
    assert refused(second, f"{usual_name(engine, target(stranger.name))} could replace {outside}/inner")


@pytest.mark.parametrize("linked", ["workspaces", "workspaces/NAME", "dangling"])
def test_a_checkouts_workspace_behind_a_link_is_refused(stranger, outside, linked):
    stranger.recipe()
    here = stranger.place / "workspaces"
    if linked == "workspaces":
        (outside / stranger.name).mkdir()
        here.symlink_to(outside)
    else:
        here.mkdir()
        (here / stranger.name).symlink_to(outside if linked != "dangling" else outside / "none")
    done = call("run", stranger.name, "--", "touch", "/workspace/written")
    assert refused(done, "is behind a link") and "workspace_roots" in done.stderr
    assert [path for path in outside.rglob("*") if path.is_file()] == []


def test_a_checkouts_workspace_that_becomes_a_link_is_not_started(engine, stranger, outside):
    made = stranger.recipe()
    here = stranger.place / "workspaces" / stranger.name
    here.mkdir(parents=True)
    name = ensure_running(engine, made)
    assert engine.container(name)["Mounts"][0]["Source"] == str(here)
    stop(engine, name)
    here.rmdir()
    here.symlink_to(outside)
    with pytest.raises(UsageError, match="behind a link"):
        ensure_running(engine, made)


def test_workspaces_on_another_disk(stranger, outside, monkeypatch):
    file = stranger.place / "config.yaml"
    monkeypatch.setenv("REPROKIT_CONFIG", str(file))
    file.write_text(f"workspace_roots: [{outside}]\n")
    recipe = stranger.place / "recipes" / "paper.yaml"
    found = locate("paper", recipe)
    assert found.parent == outside
    old = paths.home() / "workspaces" / found.name
    old.mkdir(parents=True)
    assert locate("paper", recipe) == old
    found.symlink_to("/etc")
    with pytest.raises(UsageError, match="behind a link"):
        locate("paper", recipe)


@pytest.mark.parametrize(
    ("roots", "words"),
    [
        ("[relative]", "not an absolute path"),
        ("[{place}/none]", "is not a folder"),
        ("[{place}/open]", "can be written to by others"),
        ("[{place}/outside, {place}/outside/paper/deep]", "is inside another one"),
    ],
)
def test_a_workspace_root_that_others_can_change_is_refused(stranger, outside, monkeypatch, roots, words):
    file = stranger.place / "config.yaml"
    monkeypatch.setenv("REPROKIT_CONFIG", str(file))
    (outside / "paper" / "deep").mkdir(parents=True)
    (stranger.place / "open").mkdir()
    (stranger.place / "open").chmod(0o777)
    file.write_text(f"workspace_roots: {roots.format(place=stranger.place)}\n")
    with pytest.raises(UsageError, match=words):
        locate("paper", stranger.place / "recipes" / "paper.yaml")


def test_another_recipes_workspace_is_refused(stranger):
    with pytest.raises(UsageError, match="belongs to another recipe") as error:
        stranger.recipe(top="workspace: featgraph\n")
    assert error.value.where.endswith(":3") and "-v" in error.value.hint
    own = stranger.recipe(top=f"workspace: {stranger.name.replace('-', '_')}\n")
    assert own.workspace == stranger.name.replace("-", "_")


def test_a_recipe_whose_name_is_nearly_anothers_is_refused(stranger):
    stranger.recipe()
    twin = stranger.name.replace("-", "_")
    text = (stranger.place / "recipes" / f"{stranger.name}.yaml").read_text()
    (stranger.place / "recipes" / f"{twin}.yaml").write_text(text.replace(stranger.name, twin))
    assert refused(call("run", twin, "--", "true"), "workspace folder")
    assert target(stranger.name).workspace == stranger.name


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("    mounts: [{source: a, target: /a, read_only: true}]\n", "which is writable"),
        ("    mounts: [{source: a, target: /a}, {source: b, target: /a/b}]\n", "at or inside the mount /a"),
        ("    mounts: [{source: a, target: /a}, {source: b, target: //a/}]\n", "at or inside the mount /a"),
        ("    mounts: [{source: a, target: /workspace/b}]\n", "outside /workspace"),
        ("    mounts: [{source: a, target: /}]\n", "outside /workspace"),
        ("    mounts: [{source: a, target: /./proc/x}]\n", "of the kernel"),
        ("    workdir: /proc/self/fd/8\n", "of the kernel"),
    ],
)
def test_what_a_recipe_cannot_mount(stranger, more, words):
    with pytest.raises(UsageError, match=words):
        stranger.recipe(more)
