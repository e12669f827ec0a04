"""A container writes to no folder that is not its own, and names, labels and checkouts of others claim nothing."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from reprokit import paths
from reprokit.bench.container import own_container
from reprokit.container import lifecycle, names
from reprokit.container.execute import execute
from reprokit.container.lifecycle import ensure_running, stop, usual_name
from reprokit.container.recreate import changed_file
from reprokit.container.settings import ContainerSettings, RunOptions, to_label
from reprokit.engine import ContainerInfo, Engine
from reprokit.engine.info import ChangedPath
from reprokit.errors import ReprokitError, UsageError
from reprokit.host.mounts import BindMount
from reprokit.host.workspace import locate, prepare
from reprokit.nodes import remote
from reprokit.recipe.find import Target, target
from tests.support.names import unique
from tests.support.papers import Paper, paper
from tests.support.ports import free_port
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
def a_paper(engine: Engine, debian_12) -> Iterator[Paper]:
    with paper(engine, DOCKERFILE.format(base=debian_12.name)) as made:
        yield made


@pytest.fixture
def stranger(a_paper: Paper) -> Iterator[Paper]:
    """The recipe without containers and workspace."""
    yield a_paper
    a_paper.clear()


@pytest.fixture
def desk(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Paper:
    """A recipe without an image, in the current folder."""
    monkeypatch.chdir(tmp_path)
    return Paper(None, "the-paper", tmp_path)  # type: ignore[arg-type]


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    (tmp_path / "outside").mkdir()
    return tmp_path / "outside"


def sh(engine: Engine, container: str, script: str) -> str:
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


def test_a_link_replaces_nothing_of_the_image_but_an_empty_folder(engine, stranger):
    for path in ("/full", "/linked/x", "/full/file/x", "/etc/passwd"):
        made = stranger.recipe(f"    mounts: [{{source: data, target: {path}}}]\n")
        with pytest.raises(UsageError, match="the image has files or a link at"):
            ensure_running(engine, made)
        assert engine.containers([f"reprokit.recipe={stranger.name}"]) == []
    made = stranger.recipe("    mounts: [{source: a/b, target: /empty}, {source: ., target: /new/deep/all}]\n")
    sh(engine, ensure_running(engine, made), "echo a > /empty/file; echo b > /new/deep/all/file")
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


def test_the_user_mounts_nothing_that_a_container_can_replace(engine, stranger, outside):
    made = stranger.recipe()
    (stranger.workspace / "data").mkdir(parents=True)
    (outside / "inner").mkdir()

    def run(*mounts: BindMount, name: str = "") -> str:
        return ensure_running(engine, made, RunOptions(mounts=mounts, name=name))

    with pytest.raises(UsageError, match=f"could replace {stranger.workspace}/data"):
        run(BindMount(f"{stranger.workspace}/data", "/d"))
    with pytest.raises(UsageError, match=f"could replace {stranger.workspace}"):
        run(BindMount(str(stranger.place), "/all"))
    assert engine.containers([f"reprokit.recipe={stranger.name}"]) == []
    first = run(BindMount(str(stranger.place), "/all", read_only=True), BindMount(str(outside), "/o"))
    with pytest.raises(UsageError, match=f"{first} could replace {outside}/inner"):
        run(BindMount(f"{outside}/inner", "/i"), name=f"{stranger.name}-2")


class Node:
    """A node's shell, which is this machine's."""

    node = SimpleNamespace(name="node")

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False)


def on_this_machine(made: Target) -> str:
    return str(prepare(made))


def on_node(made: Target) -> str:
    return remote.copied_workspace(Node(), str(paths.home() / "cache"), made)  # type: ignore[arg-type]


@pytest.mark.parametrize("make", [on_this_machine, on_node])
@pytest.mark.parametrize("link", ["data", "data/sub"])
def test_folders_of_a_recipe_are_made_through_no_link(desk, outside, link: str, make: Callable[[Target], str]):
    made = desk.recipe("    mounts: [{source: data/sub/deep, target: /data}, {source: ./more//x, target: /x}]\n")
    workspace = desk.workspace
    if make is on_node:
        workspace = Path(remote.workspace_folder(str(paths.home() / "cache"), made))
        workspace.mkdir(parents=True)
    assert make(made) == str(workspace)
    assert (workspace / "data/sub/deep").is_dir() and (workspace / "more/x").is_dir()
    subprocess.run(["rm", "-r", str(workspace / link)], check=True)
    (workspace / link).symlink_to(outside)
    with pytest.raises(ReprokitError, match="a link is in the way"):
        make(made)
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("linked", ["workspaces", "workspaces/the-paper", "dangling"])
def test_a_checkouts_workspace_behind_a_link_is_refused(desk, outside, linked: str):
    made, parent = desk.recipe(), desk.place / "workspaces"
    (outside / desk.name).mkdir()
    parent.mkdir()
    (parent / desk.name).mkdir()
    assert locate(desk.name, made.path) == parent / desk.name  # the control
    (parent / desk.name).rmdir()
    if linked == "workspaces":
        parent.rmdir()
        parent.symlink_to(outside)
    else:
        (parent / desk.name).symlink_to(outside if linked != "dangling" else outside / "none")
    with pytest.raises(UsageError, match="is behind a link") as error:
        locate(desk.name, made.path)
    assert "workspace_roots" in error.value.hint


def test_a_checkouts_workspace_that_becomes_a_link_is_not_started(engine, stranger, outside):
    made, folder = stranger.recipe(), stranger.place / "workspaces" / stranger.name
    folder.mkdir(parents=True)
    name = ensure_running(engine, made)
    assert engine.container(name).mounts[0].source == str(folder)
    stop(engine, name)
    folder.rmdir()
    folder.symlink_to(outside)
    with pytest.raises(UsageError, match="behind a link"):
        ensure_running(engine, made)


def test_workspaces_on_another_disk(desk, home, outside, monkeypatch):
    file, recipe = desk.place / "config.yaml", desk.place / "recipes" / "paper.yaml"
    monkeypatch.setenv("REPROKIT_CONFIG", str(file))
    (outside / "paper" / "deep").mkdir(parents=True)
    (desk.place / "open").mkdir()
    (desk.place / "open").chmod(0o777)
    for roots, words in (
        ("relative", "not an absolute path"),
        (f"{desk.place}/none", "is not a folder"),
        (f"{desk.place}/open", "can be written to by others"),
        (f"{outside}, {outside}/paper/deep", "is inside another one"),
    ):
        file.write_text(f"workspace_roots: [{roots}]\n")
        with pytest.raises(UsageError, match=words):
            locate("paper", recipe)
    file.write_text(f"workspace_roots: [{outside}]\n")
    place = locate("paper", recipe)
    assert place.parent == outside
    old = home / "workspaces" / place.name
    old.mkdir(parents=True)
    assert locate("paper", recipe) == old
    place.symlink_to("/etc")
    with pytest.raises(UsageError, match="behind a link"):
        locate("paper", recipe)


def test_another_recipes_workspace_is_refused(desk):
    with pytest.raises(UsageError, match="belongs to another recipe") as error:
        desk.recipe(top="workspace: featgraph\n")
    assert error.value.where.endswith(":3") and "-v" in error.value.hint
    assert desk.recipe(top="workspace: the_paper\n").workspace == "the_paper"
    desk.recipe()
    text = (desk.place / "recipes" / "the-paper.yaml").read_text()
    (desk.place / "recipes" / "the_paper.yaml").write_text(text.replace("the-paper", "the_paper"))
    with pytest.raises(UsageError, match="workspace folder"):
        target("the_paper")
    assert target("the-paper").workspace == "the-paper"


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
def test_what_a_recipe_cannot_mount(desk, more: str, words: str):
    with pytest.raises(UsageError, match=words):
        desk.recipe(more)
    assert desk.recipe(MOUNT).variant.mounts


# --- Names and labels


@pytest.fixture
def checkout(stranger: Paper, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """`checkout(name)` makes one with the recipe and its workspace, and goes there."""

    def make(name: str, more: str = "") -> Path:
        folder = stranger.place / name
        for path in ("recipes", f"workspaces/{stranger.name}"):
            (folder / path).mkdir(parents=True, exist_ok=True)
        text = f"name: {stranger.name}\npaper: {{title: T, venue: V, year: 2024, licence: none}}\n"
        text += f'variants:\n  cpu:\n    base: "debian:12"\n{more}'
        (folder / "recipes" / f"{stranger.name}.yaml").write_text(text)
        monkeypatch.chdir(folder)
        return folder

    return make


def test_two_checkouts_have_two_containers_and_two_workspaces(engine, stranger, checkout):
    mine = checkout("a")
    own = ensure_running(engine, target(stranger.name))
    sh(engine, own, "echo precious > /workspace/who; echo precious > /made/who")
    checkout("b")
    theirs = ensure_running(engine, target(stranger.name))
    assert theirs != own
    assert sh(engine, theirs, "ls /workspace /made") == "/made:\n\n/workspace:\n"
    measured = own_container(engine, target(stranger.name), "bench", "none")
    assert measured == f"{theirs}-bench"
    (mount,) = engine.container(measured).mounts
    (their_mount,) = engine.container(theirs).mounts
    origin = names.ContainerOrigin.of(engine, target(stranger.name))
    assert mount.source == their_mount.source == origin.workspace
    engine.remove(measured, force=True)
    checkout("a")
    assert ensure_running(engine, target(stranger.name)) == own
    assert sh(engine, own, "cat /workspace/who") == "precious\n"

    rows = {row["name"]: row for row in json.loads(run_verb("ps", "--json").stdout)}
    assert (rows[own]["here"], rows[theirs]["here"]) == (True, False)
    assert rows[own]["checkout"] == str(mine) and rows[own]["recipe_file"] == str(target(stranger.name).path)
    # A recipe's name never means the other checkout's container.
    assert run_verb("rm", "--force", stranger.name).stdout == f"removed {own}\n"
    with pytest.raises(UsageError, match=f"belongs to this checkout: {theirs}"):
        names.chosen(engine, [stranger.name])
    with pytest.raises(UsageError, match="belongs to another checkout"):
        ensure_running(engine, target(stranger.name), RunOptions(name=theirs))
    assert run_verb("exec", theirs, "--", "true").returncode == 0


def test_labels_of_an_image_claim_no_checkout(engine, stranger, checkout):
    """A container with labels of ours, made of an image that names the user's checkout in labels of its own."""
    checkout("mine")
    origin = names.ContainerOrigin.of(engine, target(stranger.name))
    mount = BindMount(str(stranger.place / "stranger"), "/workspace")
    Path(mount.source).mkdir()
    forged = ContainerSettings(mounts=(mount,), workspace=origin.workspace, recipe_file=origin.recipe_file)
    name = f"reprokit-{stranger.name}-cpu"
    labels = {
        # What every version of reprokit writes, and so no image can.
        names.NAME: name, names.RECIPE: stranger.name, names.VARIANT: "cpu", names.USER: "0:0",
        names.OWNER: str(os.getuid()), names.IMAGE: "x",
        names.SETTINGS: to_label(ContainerSettings(mounts=(mount,))),
        "reprokit.workspace": origin.workspace, "reprokit.recipe-file": origin.recipe_file,
    }  # fmt: skip
    engine.create_container(name, {"Image": stranger.image, "Entrypoint": ["sleep", "100"], "Labels": labels})
    own = ensure_running(engine, target(stranger.name))
    assert own == usual_name(engine, target(stranger.name)) != name
    assert engine.container(own).mounts[0].source == origin.workspace
    # A container that its user started by hand of such an image is nobody's, whatever its labels say.
    by_hand = stranger.by_hand(Labels={**labels, names.SETTINGS: to_label(forged)}, Entrypoint=["sleep", "100"])
    assert by_hand not in {container.name for container in names.known_containers(engine)}
    with pytest.raises(UsageError, match="in use"):
        ensure_running(engine, target(stranger.name), RunOptions(name=by_hand))


def test_stopped_containers_of_other_checkouts_keep_their_ports(engine, stranger, checkout):
    def start(name: str) -> str:
        checkout(name, more=f"    ports: [{port}]\n")
        return ensure_running(engine, target(stranger.name))

    port = free_port()
    first = start("a")
    engine.stop(first)
    start("b")
    assert start("a") == first


def test_a_container_called_previous_is_not_removed(engine: Engine, stranger: Paper):
    made, name = stranger.recipe(), unique("web")
    first, second = (stranger.by_hand(Cmd=["true"]) for _ in range(2))
    engine.rename(first, name)
    engine.rename(second, f"{name}.previous")
    ids = [engine.container(each).id for each in (name, f"{name}.previous")]
    with pytest.raises(UsageError, match="is in use"):
        ensure_running(engine, made, RunOptions(name=name))
    assert [engine.container(each).id for each in (name, f"{name}.previous")] == ids
    engine.remove(name)
    ensure_running(engine, made, RunOptions(name=name))  # nor does it get the name that is free now
    assert engine.container(f"{name}.previous").id == ids[1]
    lifecycle.remove(engine, name)
    engine.remove(ids[1])  # The control: the caller's own, of an interrupted recreation, gets its name back.
    own = ensure_running(engine, made, RunOptions(name=name))
    described = engine.container(own)
    engine.rename(own, f"{own}.previous")
    ensure_running(engine, made, RunOptions(name=name))
    assert engine.container(name).id == described.id
    lifecycle.remove(engine, name)


def test_labels_of_any_text_stop_no_verb(engine: Engine, stranger: Paper):
    prefix = unique("strange")
    settings = '{"mounts": [], "ports": [], "workspace": 5, "recipe_file": 7}'
    for number, owner in enumerate(("abc", "-1", "", str(engine.host.caller().uid))):
        name = f"{prefix}-{number}"
        labels = {names.NAME: name, names.OWNER: owner, names.SETTINGS: settings}
        engine.rename(stranger.by_hand(Cmd=["true"], Labels=labels), name)
    shown = run_verb("ps", cwd=stranger.place)
    assert shown.returncode == 0 and f"{prefix}-3" in shown.stdout and f"{prefix}-0" not in shown.stdout
    refused = run_verb("stop", f"{prefix}-0", cwd=stranger.place)
    assert refused.returncode == 2 and refused.stderr.startswith(f"error: no container '{prefix}-0'")


class ChangedContainer:
    """An engine with one container, in which commands made this many empty folders."""

    def __init__(self, folders: int) -> None:
        self.folders, self.requests = folders, 0

    def changes(self, container: str) -> list[ChangedPath]:
        return [ChangedPath(f"/made/{number}") for number in range(self.folders)]

    @contextlib.contextmanager
    def archive(self, container: str, path: str):
        self.requests += 1
        stream, folder = io.BytesIO(), tarfile.TarInfo("folder")
        folder.type = tarfile.DIRTYPE
        with tarfile.open(fileobj=stream, mode="w") as tar:
            tar.addfile(folder)
        yield iter([stream.getvalue()])


@pytest.mark.parametrize(("folders", "requests", "changed"), [(3, 3, ""), (5000, 1000, "/made/4999")])
def test_many_empty_folders_cost_few_requests_and_count_as_files(folders, requests, changed):
    engine = ChangedContainer(folders)
    assert changed_file(engine, ContainerInfo("c")) == changed  # type: ignore[arg-type]
    assert engine.requests == requests
