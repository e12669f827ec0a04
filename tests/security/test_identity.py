"""A stranger's recipe that is called like one of the user's reaches neither its container nor its workspace."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from pathlib import Path

import pytest

from reprokit.bench.container import own_container
from reprokit.container import names
from reprokit.container.execute import execute
from reprokit.container.lifecycle import ensure_running, usual_name
from reprokit.container.settings import ContainerSettings, RunOptions, to_label
from reprokit.errors import UsageError
from reprokit.host.mounts import BindMount
from reprokit.recipe.find import target
from tests.support.papers import Paper, paper
from tests.support.verbs import run_verb

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def a_paper(engine, debian_12):
    with paper(engine, f"FROM {debian_12.name}\nRUN mkdir -m 777 /made\n") as made:
        yield made


@pytest.fixture
def user(a_paper: Paper):
    yield a_paper
    a_paper.clear()


@pytest.fixture
def checkout(user: Paper, monkeypatch: pytest.MonkeyPatch):
    """`checkout(name, workspace)` makes one with the recipe and goes there."""

    def make(name: str, workspace: bool = False) -> Path:
        folder = user.place / name
        (folder / "recipes").mkdir(parents=True, exist_ok=True)
        text = f"name: {user.name}\npaper: {{title: T, venue: V, year: 2024, licence: none}}\n"
        (folder / "recipes" / f"{user.name}.yaml").write_text(f'{text}variants:\n  cpu:\n    base: "debian:12"\n')
        if workspace:
            (folder / "workspaces" / user.name).mkdir(parents=True, exist_ok=True)
        monkeypatch.chdir(folder)
        return folder

    return make


def call(*args: str) -> subprocess.CompletedProcess[str]:
    return run_verb(*args)


def sh(engine, container: str, script: str) -> str:
    done = execute(engine, container, ["sh", "-c", script], logged=False)
    assert done.exit_code == 0, done
    return done.stdout


@pytest.mark.parametrize("workspace", [True, False])
def test_two_checkouts_have_two_containers_and_two_workspaces(engine, user, checkout, workspace):
    mine = checkout("a", workspace)
    own = ensure_running(engine, target(user.name))
    sh(engine, own, "echo precious > /workspace/who; echo precious > /made/who")
    checkout("b", workspace)
    theirs = ensure_running(engine, target(user.name))
    assert theirs != own
    assert sh(engine, theirs, "ls /workspace /made") == "/made:\n\n/workspace:\n"
    measured = own_container(engine, target(user.name), "bench", "none", print)
    assert measured == f"{theirs}-bench"
    (mount,) = engine.container(measured)["Mounts"]
    assert (
        mount["Source"]
        == engine.container(theirs)["Mounts"][0]["Source"]
        == names.ContainerOrigin.of(engine, target(user.name)).workspace
    )
    engine.remove(measured, force=True)
    checkout("a", workspace)
    assert ensure_running(engine, target(user.name)) == own and sh(engine, own, "cat /workspace/who") == "precious\n"

    rows = {row["name"]: row for row in json.loads(call("ps", "--json").stdout)}
    assert (rows[own]["here"], rows[theirs]["here"]) == (True, False)
    assert rows[own]["checkout"] == str(mine) and rows[own]["recipe_file"] == str(target(user.name).path)
    # A recipe's name never means the other checkout's container.
    assert call("rm", "--force", user.name).stdout == f"removed {own}\n"
    for verb in (["exec"], ["stop"], ["logs"], ["rm", "--force"]):
        done = call(*verb, user.name, *(["--", "true"] if verb == ["exec"] else []))
        assert done.returncode == 2 and "belongs to this checkout" in done.stderr and theirs in done.stderr, verb
    with pytest.raises(UsageError, match="belongs to another checkout"):
        ensure_running(engine, target(user.name), RunOptions(name=theirs))
    assert call("exec", theirs, "--", "true").returncode == 0


def test_labels_of_an_image_claim_no_checkout(engine, user, checkout):
    """A container of an earlier version, made of an image that names the user's checkout in labels of its own."""
    checkout("mine", workspace=True)
    origin = names.ContainerOrigin.of(engine, target(user.name))
    stranger = BindMount(str(user.place / "stranger"), "/workspace")
    Path(stranger.source).mkdir()
    forged = ContainerSettings(mounts=(stranger,), workspace=origin.workspace, recipe_file=origin.recipe_file)
    name = f"reprokit-{user.name}-cpu"
    labels = {
        # What every version of reprokit writes, and so no image can.
        names.NAME: name, names.RECIPE: user.name, names.VARIANT: "cpu", names.USER: "0:0",
        names.OWNER: str(os.getuid()), names.IMAGE: "x",
        names.SETTINGS: to_label(ContainerSettings(mounts=(stranger,))),
        "reprokit.workspace": origin.workspace, "reprokit.recipe-file": origin.recipe_file,
    }  # fmt: skip
    engine.create_container(name, {"Image": user.image, "Entrypoint": ["sleep", "100"], "Labels": labels})
    said: list[str] = []
    own = ensure_running(engine, target(user.name), notify=said.append)
    assert own == usual_name(engine, target(user.name)) != name and f"`reprokit rm {name}` removes it" in said[0]
    assert engine.container(own)["Mounts"][0]["Source"] == origin.workspace
    # One that its user started by hand of such an image is nobody's, whatever its labels say.
    by_hand = user.by_hand(Labels={**labels, names.SETTINGS: to_label(forged)}, Entrypoint=["sleep", "100"])
    with pytest.raises(UsageError, match="in use"):
        ensure_running(engine, target(user.name), RunOptions(name=by_hand))
    assert call("stop", by_hand).returncode == 2


def test_stopped_containers_of_other_checkouts_keep_their_ports(engine, user, checkout):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        free = probe.getsockname()[1]
    text = (checkout("a") / "recipes" / f"{user.name}.yaml").read_text() + f"    ports: [{free}]\n"

    def start(name: str) -> str:
        file = checkout(name) / "recipes" / f"{user.name}.yaml"
        file.write_text(text)
        return ensure_running(engine, target(user.name))

    first = start("a")
    engine.stop(first)
    start("b")
    assert start("a") == first
